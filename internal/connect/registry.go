package connect

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"

	"waterwheel/config"
	"waterwheel/internal/measurement"
	"waterwheel/internal/schemas"
	"waterwheel/pipeline"
)

// registry asks a schema registry for workers.
type registry struct{ *schemas.Client }

// Schema implements pipeline.Schemas.
func (r registry) Schema(ctx context.Context, topic string, id measurement.SchemaID) (pipeline.SchemaAnswer, error) {
	a, err := r.Client.Schema(ctx, topic, id)
	return pipeline.SchemaAnswer(a), err
}

// Registry is the schema registry of the settings. It asks nothing yet. Nil means that there is none.
func Registry(c config.Config) (pipeline.Schemas, error) {
	r := c.Registry
	if len(r.URLs) == 0 {
		return nil, nil
	}
	security := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: r.TLSInsecure}
	if r.TLSCAFile != "" {
		pem, err := os.ReadFile(r.TLSCAFile)
		if err != nil {
			return nil, fmt.Errorf("reading SCHEMA_REGISTRY_TLS_CA_FILE: %w", err)
		}
		if security.RootCAs = x509.NewCertPool(); !security.RootCAs.AppendCertsFromPEM(pem) {
			return nil, errors.New("reading SCHEMA_REGISTRY_TLS_CA_FILE: it holds no certificate in PEM")
		}
	}
	if r.TLSCertFile != "" { // read for each connection, since certificates are replaced
		security.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			own, err := tls.LoadX509KeyPair(r.TLSCertFile, r.TLSKeyFile)
			return &own, err
		}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = security
	o := schemas.Options{URLs: r.URLs, Username: r.Username, Timeout: r.Timeout, Client: &http.Client{Transport: transport}}
	if r.Password != "" {
		o.Password = func() string { return r.Password.Reveal() }
	}
	if r.Token != "" {
		o.Token = func() string { return r.Token.Reveal() }
	}
	return registry{schemas.New(o)}, nil
}
