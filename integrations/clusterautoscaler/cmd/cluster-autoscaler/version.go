package main

import (
	"cmp"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"

	"sigs.k8s.io/cluster-autoscaler/pkg/config"
)

// Set by the linker in a release; otherwise taken from what the Go tool recorded.
var version, commit, date string

// versions are keys and values that say which program this is.
func versions() []any {
	autoscaler := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = cmp.Or(version, info.Main.Version)
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				commit = cmp.Or(commit, s.Value)
			case "vcs.time":
				date = cmp.Or(date, s.Value)
			}
		}
		autoscaler = cmp.Or(moduleVersion(info, reflect.TypeFor[config.AutoscalingOptions]().PkgPath()), autoscaler)
	}
	return []any{
		"version", cmp.Or(version, "unknown"), "commit", cmp.Or(commit, "unknown"), "built", cmp.Or(date, "unknown"),
		"clusterAutoscaler", autoscaler, "go", runtime.Version(),
	}
}

// moduleVersion is the version of the module that a package is in; empty where it is not known.
func moduleVersion(info *debug.BuildInfo, pkg string) string {
	found := &debug.Module{}
	for _, m := range info.Deps {
		if (pkg == m.Path || strings.HasPrefix(pkg, m.Path+"/")) && len(m.Path) > len(found.Path) {
			found = m
		}
	}
	if found.Replace != nil {
		return cmp.Or(found.Replace.Version, found.Version)
	}
	return found.Version
}
