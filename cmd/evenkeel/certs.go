package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/evenkeel/evenkeel/cmd/evenkeel/internal/printing"
	"github.com/evenkeel/evenkeel/internal/serving"
)

// defaultLifetime is the lifetime of certificates: one year.
const defaultLifetime = 365 * 24 * time.Hour

type certsOptions struct {
	dir      string
	hosts    []string
	lifetime time.Duration
	force    bool
}

func newCerts() *cobra.Command {
	var flags printing.Flags
	o := certsOptions{lifetime: defaultLifetime}
	cmd := &cobra.Command{
		Use:   "certs --dir DIR --host HOST...",
		Short: "Make certificates for the gRPC servers and Cluster Autoscaler",
		Long: `Make a certificate authority, a server certificate for the given hosts and a client certificate, and write them to a
folder: ca.crt, ca.key, server.crt, server.key, client.crt, client.key. Cluster Autoscaler requires TLS for its gRPC
expander, and can use it for an external cloud provider.

Files are overwritten only with --force, which makes all certificates anew.`,
		Example: "  evenkeel certs --dir certs --host localhost --host 127.0.0.1\n  evenkeel certs --dir certs --host " +
			"evenkeel.kube-system.svc --lifetime 2160h",
		GroupID: groupOther,
		Args:    noArguments,
		PreRunE: func(*cobra.Command, []string) error { return o.validate() }, // before the work starts: errors of usage
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.write(time.Now()); err != nil {
				return err
			}
			table := printing.NewGrid("CERTIFICATE", "KEY", "USE")
			for _, file := range certsFiles {
				table.Add(file.cert, file.key, file.use)
			}
			return flags.Printer(cmd).Print(table)
		},
	}
	flags.AddTo(cmd, printing.Table)
	f := cmd.Flags()
	f.StringVar(&o.dir, "dir", "", "folder to write to; created if it does not exist")
	f.StringSliceVar(&o.hosts, "host", nil, "name or IP address clients use for the server (repeatable)")
	f.DurationVar(&o.lifetime, "lifetime", o.lifetime, "how long the certificates are valid")
	f.BoolVar(&o.force, "force", false, "overwrite files")
	return cmd
}

func (o *certsOptions) validate() error {
	return cmp.Or(
		refuse(o.dir == "", "no folder given (name one with --dir)"),
		refuse(len(o.hosts) == 0 || slices.Contains(o.hosts, ""), "no host given (name one with --host)"),
		refuse(o.lifetime <= 0, "invalid --lifetime %s: must be positive", o.lifetime),
		checkHosts("host", o.hosts),
	)
}

// checkHosts checks a flag that names a server.
func checkHosts(flag string, hosts []string) error {
	for _, host := range hosts {
		if err := serving.CheckHost(host); err != nil {
			return fmt.Errorf("--%s: %w", flag, err)
		}
	}
	return nil
}

// certsFiles are the files in the order they are written: authority, server, client.
var certsFiles = [...]struct{ cert, key, use string }{
	{"ca.crt", "ca.key", "signs the others; keep its key secret"},
	{"server.crt", "server.key", "for the server"},
	{"client.crt", "client.key", "for Cluster Autoscaler"},
}

// write makes the certificates and writes them.
func (o *certsOptions) write(now time.Time) error {
	authority, err := serving.NewAuthority(now, o.lifetime)
	if err != nil {
		return err
	}
	server, err := authority.Server(o.hosts...)
	if err != nil {
		return err
	}
	client, err := authority.Client("cluster-autoscaler")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.dir, 0o700); err != nil {
		return err
	}
	if !o.force {
		for _, file := range certsFiles {
			for _, name := range [...]string{file.cert, file.key} {
				if _, err := os.Lstat(filepath.Join(o.dir, name)); err == nil {
					return fmt.Errorf("%s already exists (--force overwrites all files)", filepath.Join(o.dir, name))
				}
			}
		}
	}
	for i, pair := range [...]serving.Pair{authority.Pair, server, client} {
		if err := replaceFile(filepath.Join(o.dir, certsFiles[i].cert), pair.Cert, 0o644); err != nil {
			return err
		}
		if err := replaceFile(filepath.Join(o.dir, certsFiles[i].key), pair.Key, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// replaceFile writes a file atomically, with this mode even if it had another one before.
func replaceFile(name string, text []byte, mode os.FileMode) error {
	temporary := name + ".new"
	if err := os.Remove(temporary); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.WriteFile(temporary, text, mode); err != nil {
		return &fs.PathError{Op: "write", Path: name, Err: errors.Unwrap(err)}
	}
	if err := os.Rename(temporary, name); err != nil {
		_ = os.Remove(temporary) // the first error is the cause
		return err
	}
	return nil
}
