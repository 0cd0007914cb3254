package connect

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"waterwheel/config"
	"waterwheel/internal/measurement"
)

// TestRegistryIsTrustedAndLoggedInTo covers TLS, a certificate authority and a token. Mistakes in the files are reported at the
// start.
func TestRegistryIsTrustedAndLoggedInTo(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer geheim" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"error_code":40403,"message":"x"}`))
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	nothing := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(nothing, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		registry config.Registry
		says     string
	}{
		{config.Registry{Token: "geheim", TLSCAFile: file}, ""},
		{config.Registry{Token: "geheim", TLSInsecure: true}, ""},
		{config.Registry{Token: "geheim"}, "certificate"},
		{config.Registry{Username: "u", Password: "geheim", TLSCAFile: file}, "SCHEMA_REGISTRY_USERNAME"},
		{config.Registry{Token: "geheim", TLSCAFile: nothing}, "contains no PEM certificate"},
		{config.Registry{Token: "geheim", TLSCAFile: nothing + "x"}, "SCHEMA_REGISTRY_TLS_CA_FILE"},
		{config.Registry{Token: "geheim", TLSCAFile: file, TLSCertFile: nothing, TLSKeyFile: nothing}, ""}, // the server asks for no client certificate
	} {
		test.registry.URLs = []string{server.URL}
		r, err := Registry(config.Config{Registry: test.registry}, nil)
		if err == nil {
			err = TryRegistry(t.Context(), r)
		}
		if (err == nil) != (test.says == "") || err != nil && (!strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), "geheim")) {
			t.Errorf("%+v: %v, want %q", test.registry, err, test.says)
		}
	}
	if r, err := Registry(config.Config{}, nil); r != nil || err != nil {
		t.Errorf("without an address: %v %v", r, err)
	}
}

// TestCommandsAskAFailingRegistryOnce checks that a command does not ask again after the first error.
func TestCommandsAskAFailingRegistryOnce(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked++; r.URL.Path == "/schemas/ids/1" {
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"error_code":40403,"message":"x"}`))
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(server.Close)
	r, err := Registry(config.Config{Registry: config.Registry{URLs: []string{server.URL}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var o measurement.Options
	if Asking(context.Background(), nil, &o); o.Ask != nil {
		t.Error("without a registry something is asked")
	}
	Asking(t.Context(), r, &o)
	if s, err := o.Ask(measurement.SchemaID{Number: 1}); err != nil || s.Reason != measurement.UnknownSchema {
		t.Errorf("an id that is not there: %+v %v", s, err)
	}
	for range 3 {
		if s, err := o.Ask(measurement.SchemaID{Number: 2}); err == nil || !strings.Contains(err.Error(), "503") {
			t.Errorf("%+v %v", s, err)
		}
	}
	if asked != 2 {
		t.Errorf("asked %d times", asked)
	}
}
