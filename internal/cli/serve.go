package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/config"
	"waterwheel/internal/collection"
	"waterwheel/internal/connect"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/serve"
	"waterwheel/internal/timeseries"
	"waterwheel/internal/web"
	"waterwheel/reader"
)

const serveHelp = `Answers queries over HTTP at SERVE_ADDR, until SIGINT, SIGTERM or SIGHUP. It reads MongoDB only, in its own process:
dashboards do not slow the consumers. Give it a MongoDB user that may only read. The only settings that it needs are
MONGODB_URI and the other settings of the connection to MongoDB.

  GET /                    a page that plots measurements
  GET /v1/collections      the names of the time series
  GET /v1/series           ?series=NAME&match=site=north: the series
  GET /v1/measurements     ?series=NAME&match=sensor=s-17&last=1h: measurements, as an array of flat rows
  GET /v1/totals           ?series=NAME&last=30d&every=1h&agg=mean,max: totals by windows of time, as query --every has them

All requests about series take the parameters series, match (a condition as in query; if there are several, all must hold),
filter, from, to, last and limit. Measurements and totals also take fields (separated by commas) and format=json or csv.
Measurements take latest=true and newest=true. Totals take every, agg, zone and exact=true. If the limit cuts off an answer,
the answer ends with the trailer Waterwheel-More.

If a secret setting changes in its file (SERVE_TOKEN_FILE, MONGODB_URI_FILE), serve uses it within 30 seconds.`

// answerRoom is how much longer than SERVE_MAX_TIME an answer may take to write its error or its last rows.
const answerRoom = 5 * time.Second

func (p *Program) serveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "serve",
		Short: "Serve stored measurements over HTTP, for Grafana and browsers",
		Long:  serveHelp,
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := config.LoadDatabase(p.Lookup, p.Environ)
			if err != nil {
				return err
			}
			log := newLogger(p.Stderr, c.Service.LogLevel, c.Service.LogFormat, p.onTerminal)
			return p.rotate(cmd.Context(), rotation{config.LoadDatabase, serveMeasurements}, c, log)
		},
	}
}

// serveMeasurements serves requests until the context ends.
func serveMeasurements(ctx context.Context, c config.Config, log *slog.Logger) error {
	server := &web.Server{Setting: "SERVE_ADDR", Address: c.Serve.Addr, Longest: serve.QueueTime + c.Serve.MaxTime + answerRoom, Log: log}
	if c.Serve.CertFile != "" {
		certificate, err := web.NewCertificate(c.Serve.CertFile, c.Serve.KeyFile, log)
		if err != nil {
			return fmt.Errorf("SERVE_TLS_CERT_FILE: %w", err)
		}
		server.TLS = certificate.Config()
	}
	waiting := connect.Patience{Log: log, Opening: true, Bound: "START_TIMEOUT"}
	database, err := connect.OpenDatabase(ctx, c, connect.DatabaseOptions(c, log), waiting.Started(c.Service.StartTimeout))
	if err != nil {
		if ctx.Err() != nil {
			return nil // it was told to end while it waited
		}
		return err
	}
	defer connect.CloseDatabase(database)
	server.Handler = serve.Handler(serve.Options{
		Names:  func(ctx context.Context) ([]string, error) { return collection.Names(ctx, database) },
		Open:   (&openSeries{database: database, of: map[string]openedSeries{}}).open,
		Filter: serveFilter, Times: serveTimes,
		Explain: database.Explain,
		Ping:    func(ctx context.Context) error { return database.Driver().Client().Ping(ctx, nil) }, // of a server that queries would use
		Usage: func(err error) bool {
			return errors.As(err, new(usageError)) || mongodb.RefusesQuery(database.Translate(err))
		},
		MaxRows: c.Serve.MaxRows, MaxTime: c.Serve.MaxTime, MaxQueries: c.Serve.MaxQueries, Token: c.Serve.Token.Reveal(), Log: log,
	})
	if c.Serve.Token == "" && server.TLS == nil {
		log.Info("requests need no token and are not encrypted: see SERVE_TOKEN and SERVE_TLS_CERT_FILE")
	}
	err = server.Run(ctx, context.WithoutCancel(ctx)) // pending answers may take a moment longer
	if cause := context.Cause(ctx); err == nil && errors.Is(cause, ErrRotated) {
		log.Info("ended", "why", cause)
	}
	return err
}

// reopened is how long an open time series is used. After that its options are read again, because it may have been dropped and
// created with other options.
const reopened = time.Minute

// openSeries keeps time series open.
type openSeries struct {
	database *mongodb.Database

	mu sync.Mutex
	of map[string]openedSeries
}

type openedSeries struct {
	*reader.Series
	at time.Time
}

func (s *openSeries) open(ctx context.Context, name string) (serve.Source, error) {
	s.mu.Lock()
	known := s.of[name]
	s.mu.Unlock()
	if known.Series != nil && time.Since(known.at) < reopened {
		return known.Series, nil
	}
	if err := timeseries.CheckSeriesName(s.database.Name(), name, timeseries.MaxNamespace); err != nil {
		return nil, usageError{fmt.Errorf("the time series %q %w", name, err)}
	}
	series, err := reader.Open(ctx, s.database.Driver(), name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		delete(s.of, name)
		return nil, err
	}
	s.of[name] = openedSeries{series, time.Now()}
	return series, nil
}

// serveFilter parses the conditions of a request in the notation of query.
func serveFilter(o timeseries.Options, conditions []string, filter string) (bson.D, error) {
	words := queryWords{}
	for _, one := range conditions {
		parsed, err := parseWords([]string{"-", one})
		if err != nil {
			return nil, err
		}
		if len(parsed.conditions) != 1 {
			return nil, usageError{fmt.Errorf("match is %q: it must be name=value or name!=value, such as sensor=s-17", one)}
		}
		words.conditions = append(words.conditions, parsed.conditions...)
	}
	var also bson.D
	if filter != "" {
		value, err := parseJSON(filter)
		if err == nil {
			err = value.Unmarshal(&also)
		}
		if err != nil {
			return nil, usageError{fmt.Errorf("filter is not an object of Extended JSON: %w", err)}
		}
		if err := refuseScripts(also); err != nil {
			return nil, err
		}
	}
	return words.filter(o.MetaField, also)
}

// refuseScripts refuses operators that run JavaScript on the server. A filter of serve may come from anywhere.
func refuseScripts(v any) error {
	switch v := v.(type) {
	case bson.D:
		for _, e := range v {
			if e.Key == "$where" || e.Key == "$function" || e.Key == "$accumulator" {
				return usageError{fmt.Errorf("filter has %s, which runs JavaScript on the server: use other operators", e.Key)}
			}
			if err := refuseScripts(e.Value); err != nil {
				return err
			}
		}
	case bson.A:
		for _, one := range v {
			if err := refuseScripts(one); err != nil {
				return err
			}
		}
	}
	return nil
}

// serveTimes parses the bounds of a request in the notation of query.
func serveTimes(from, to, last string, now time.Time, zone *time.Location) (begin, end time.Time, err error) {
	r, err := parseRange("", from, to, last, now, zone)
	return r.from, r.to, err
}
