package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"waterwheel/sink"
)

// TestSetupOutlastsAnElection: not the process ends, but the log says why it is not there yet; and not for ever.
func TestSetupOutlastsAnElection(t *testing.T) {
	election := &sink.OutageError{Doing: "creating indexes", Err: &sink.CommandError{Code: 10107, Message: "not primary"}}
	for name, c := range map[string]struct {
		lasts time.Duration
		then  error
		want  string
	}{
		"an election":     {12 * time.Second, nil, ""},
		"another mistake": {2 * time.Second, errors.New("defined otherwise"), "defined otherwise"},
		"no primary":      {time.Hour, nil, "tried again for 30s: creating indexes: not primary (code 10107)"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				begin := time.Now()
				err := persist(t.Context(), newLogger(&out, "info", "text", false), func() error {
					if time.Since(begin) < c.lasts {
						return election
					}
					return c.then
				})
				if got := ""; err != nil && err.Error() != c.want || err == nil && c.want != got {
					t.Errorf("ended with %v, want %q", err, c.want)
				}
				if !strings.Contains(out.String(), "MongoDB cannot be set up yet, trying again") || time.Since(begin) > setupPatience+time.Second {
					t.Errorf("after %v the log says:\n%s", time.Since(begin), out.String())
				}
			})
		})
	}
}
