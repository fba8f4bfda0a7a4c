package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// callingWith writes the configuration with which an API server calls webhooks at an address with the client certificate
// of a folder.
func callingWith(t *testing.T, folder, address string) (file string) {
	t.Helper()
	home := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(home, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	kubeconfig := write("kubeconfig", fmt.Sprintf("apiVersion: v1\nkind: Config\nusers:\n- name: %s\n  user: {client-certificate: %s, "+
		"client-key: %s}\n",
		address, filepath.Join(folder, "client.crt"), filepath.Join(folder, "client.key")))
	text := "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n"
	for _, plugin := range []string{"MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"} {
		text += fmt.Sprintf("- name: %s\n  configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, "+
			"kubeConfigFile: %s}\n", plugin, kubeconfig)
	}
	return write("admission.yaml", text)
}

// post sends an empty request with the client certificate of a folder, or without one, and returns the code of the answer.
func post(ctx context.Context, t *testing.T, url, folder string) (code int, err error) {
	t.Helper()
	config := &tls.Config{InsecureSkipVerify: true} // who asks is of interest here, not who answers
	if folder != "" {
		pair, err := tls.LoadX509KeyPair(filepath.Join(folder, "client.crt"), filepath.Join(folder, "client.key"))
		if err != nil {
			t.Fatal(err)
		}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}).Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}
