package main

import (
	"cmp"
	"context"
	"errors"
	"net"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"golang.org/x/time/rate"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/internal/serving"
	"github.com/evenkeel/evenkeel/internal/serving/access"
)

// problemInterval is the minimum interval between two log lines about failed access reviews.
const problemInterval = time.Minute

// pageFlags are the flags for metrics, status and probes of a server, and for access to them. They
// are the same for all servers in a cluster.
type pageFlags struct {
	address, healthAddress string
	files                  serving.Files
	secure                 bool
	secureFlag             *pflag.Flag
}

// addTo adds the flags. pages lists the pages on address.
func (o *pageFlags) addTo(f *pflag.FlagSet, address, pages string) {
	f.StringVar(&o.address, "metrics-address", address, "where "+pages+" are served; empty to disable")
	f.BoolVar(&o.secure, "metrics-secure", false,
		"serve these pages with TLS, and only to clients that the API server authorizes; default true with a certificate, or "+
			"on addresses other than loopback without --allow-plaintext")
	addCertificate(f, &o.files, "metrics-",
		"certificate of --metrics-address; a self-signed one is made if it is secure and none is given", "")
	f.StringVar(&o.healthAddress, "health-address", "",
		"second address of /healthz and /readyz, without TLS for the kubelet; empty to disable")
	o.secureFlag = f.Lookup("metrics-secure")
}

func (o *pageFlags) validate() error {
	return cmp.Or(
		checkOptional("health-address", o.healthAddress), checkFiles("metrics-", o.files),
		refuse(o.address == "" && (o.files.Cert != "" || o.secure),
			"--metrics-secure and --metrics-cert need --metrics-address: without it there is no page to protect"),
		checkOptional("metrics-address", o.address),
	)
}

// secured reports whether the pages are only for authorized clients, which requires an API server.
func (o *pageFlags) secured(config *rest.Config, plaintext bool) bool {
	switch {
	case o.secureFlag.Changed:
		return o.secure
	case config == nil:
		return false
	case o.files.Cert != "":
		return true
	}
	host, _, _ := net.SplitHostPort(o.address)
	ip := net.ParseIP(host)
	return !plaintext && host != "localhost" && (ip == nil || !ip.IsLoopback())
}

// guard completes the options of the pages. config is for the API server; nil means that there is
// none.
func (o *pageFlags) guard(web *serving.HTTPOptions, config *rest.Config, log logr.Logger) error {
	web.Files, web.Name = o.files, "metrics"
	if o.address == "" || !o.secured(config, web.Plaintext) {
		return nil
	}
	if config == nil {
		return &usageError{errors.New("--metrics-secure without an API server: it is not known who may read the metrics"), "omit it"}
	}
	seldom := rate.Sometimes{Interval: problemInterval}
	guard, err := access.New(config, func(err error) {
		seldom.Do(func() { log.Error(err, "Failed to check who may read the metrics") })
	})
	if err != nil {
		return err
	}
	web.SelfSigned, web.Protect = true, guard.Protect
	return nil
}

// listen opens the listeners of the pages; there are none if the flags are empty. A certificate has a check in web.Ready.
func (o *pageFlags) listen(ctx context.Context, web serving.HTTPOptions, to *listeners) error {
	if o.address != "" {
		var page *serving.HTTPServer // before it starts serving
		if o.files.Cert != "" {
			web.Ready["metrics-certificate"] = func() error { return page.Problem() }
		}
		var err error
		if page, err = to.http(ctx, "metrics-address", o.address, web); err != nil {
			return err
		}
	}
	if o.healthAddress == "" {
		return nil
	}
	_, err := to.http(ctx, "health-address", o.healthAddress,
		serving.HTTPOptions{Plaintext: true, Health: web.Health, Ready: web.Ready, Grace: web.Grace, Name: "health"})
	return err
}
