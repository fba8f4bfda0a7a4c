package simulate

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// statusConfigMap is the ConfigMap in which Cluster Autoscaler writes the status of its node
// groups.
const statusConfigMap = "cluster-autoscaler-status"

// statusGroups are the bounds of groups by name.
type statusGroups map[string]DumpBounds

// add adds bounds, if they are valid.
func (s statusGroups) add(name string, least, most int32) {
	if name != "" && least >= 0 && most >= least {
		s[name] = DumpBounds{least, most}
	}
}

// parseStatus reads the bounds of node groups from the status of Cluster Autoscaler: YAML since
// 1.30, text before. Other formats give no bounds.
func parseStatus(text string) map[string]DumpBounds {
	var status struct {
		NodeGroups []struct {
			Name   string `json:"name"`
			Health struct {
				MinSize int32 `json:"minSize"`
				MaxSize int32 `json:"maxSize"`
			} `json:"health"`
		} `json:"nodeGroups"`
	}
	groups := statusGroups{}
	if yaml.Unmarshal([]byte(text), &status) == nil {
		for _, g := range status.NodeGroups {
			groups.add(g.Name, g.Health.MinSize, g.Health.MaxSize)
		}
	}
	if len(groups) > 0 {
		return groups
	}
	name := ""
	for line := range strings.Lines(text) {
		if m := statusName.FindStringSubmatch(line); m != nil {
			name = m[1]
		}
		if m := statusBounds.FindStringSubmatch(line); m != nil && name != "" {
			least, err := strconv.ParseInt(m[1], 10, 32)
			most, err2 := strconv.ParseInt(m[2], 10, 32)
			if err == nil && err2 == nil {
				groups.add(name, int32(least), int32(most))
			}
		}
	}
	return groups
}

var (
	statusName   = regexp.MustCompile(`^\s*Name:\s+(\S+)`)
	statusBounds = regexp.MustCompile(`minSize=(\d+),\s*maxSize=(\d+)`)
)

// boundsOf finds a group in the status. The names of a cloud may be longer than labels, such as
// eks-web-6ac8f0e2 or aks-web-12345-vmss: the label must be a part of exactly one of them.
func (d *Dump) boundsOf(group string) (name string, found bool) {
	if _, exact := d.bounds[group]; exact {
		return group, true
	}
	var names []string
	for name := range d.bounds {
		rest, at := name, -1
		for {
			i := strings.Index(rest, group)
			if i < 0 {
				break
			}
			before, after := rest[:i], rest[i+len(group):]
			if isEdge(before, len(before)-1) && isEdge(after, 0) {
				at = i
				break
			}
			rest = rest[i+1:]
		}
		if at >= 0 {
			names = append(names, name)
		}
	}
	if len(names) != 1 {
		return "", false
	}
	return names[0], true
}

// isEdge reports whether there is no letter or digit at a position of a text.
func isEdge(text string, at int) bool {
	return at < 0 || at >= len(text) || slices.Contains([]byte("-_./"), text[at])
}
