package connect

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"waterwheel/config"
	"waterwheel/internal/kafka"
	"waterwheel/internal/measurement"
	"waterwheel/internal/schemas"
	"waterwheel/internal/timeseries"
	"waterwheel/pipeline"
)

// Schemas is a schema registry.
type Schemas = pipeline.Schemas

// registry implements the schema registry of workers.
type registry struct{ *schemas.Client }

// Schema implements pipeline.Schemas.
func (r registry) Schema(ctx context.Context, topic string, id measurement.SchemaID) (pipeline.SchemaAnswer, error) {
	a, err := r.Client.Schema(ctx, topic, id)
	return pipeline.SchemaAnswer(a), err
}

// Registry returns the schema registry of the settings, without asking it anything. Nil means that there is none. If reg is not
// nil, it registers the registry's metrics.
func Registry(c config.Config, reg prometheus.Registerer) (Schemas, error) {
	r := c.Registry
	if len(r.URLs) == 0 {
		return nil, nil
	}
	security := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: r.TLSInsecure}
	if r.TLSCAFile != "" {
		var err error
		if security.RootCAs, err = kafka.Authorities("SCHEMA_REGISTRY_TLS_CA_FILE", r.TLSCAFile); err != nil {
			return nil, err
		}
	}
	if r.TLSCertFile != "" { // read for each connection, because certificates are replaced
		security.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			own, err := tls.LoadX509KeyPair(r.TLSCertFile, r.TLSKeyFile)
			return &own, err
		}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = security
	o := schemas.Options{
		URLs: r.URLs, Username: r.Username, Password: r.Password.Reveal(), Token: r.Token.Reveal(),
		Timeout: r.Timeout, Client: &http.Client{Transport: transport},
	}
	if reg != nil {
		o.Metrics = schemas.NewMetrics(reg)
	}
	return registry{schemas.New(o)}, nil
}

// Asking makes decoders fetch the schemas that records name from a registry. It is for commands, which may wait. After the first
// error of the registry, all further requests return that error, so that a command does not wait at each record.
func Asking(ctx context.Context, from Schemas, o *measurement.Options) {
	if from == nil {
		return
	}
	var failed error
	o.Ask = func(id measurement.SchemaID) (measurement.Schema, error) {
		if failed != nil {
			return measurement.Schema{}, failed
		}
		a, err := from.Schema(ctx, "", id)
		if err != nil {
			failed = fmt.Errorf("asking the schema registry: %w", err)
		}
		if a.Unknown {
			a.Schema = measurement.Schema{Reason: measurement.UnknownSchema, Detail: "the registry has no schema with this id"}
		}
		return a.Schema, failed
	}
}

// NewAskingDecoder is NewDecoder for commands. Its decoder fetches schemas from the registry.
func NewAskingDecoder(ctx context.Context, c config.Config, from Schemas) (*measurement.Decoder, timeseries.Options, error) {
	definition, err := seriesOptions(c).Normalize()
	if err != nil {
		return nil, definition, fmt.Errorf("checking the settings of the time series: %w", err)
	}
	o := Decoding(c, definition)
	Asking(ctx, from, &o)
	decoder, err := measurement.New(o)
	return decoder, definition, err
}

// TryRegistry requests a schema that no registry has. The answer shows that the server is a registry, and that this user may ask
// it.
func TryRegistry(ctx context.Context, from Schemas) error {
	_, err := from.Schema(ctx, "", measurement.SchemaID{})
	return err
}
