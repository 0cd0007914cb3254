package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"waterwheel/config"
	"waterwheel/internal/check"
	"waterwheel/internal/connect"
)

// sampleFlag is the value of --sample: a number of records, or - for what comes from standard input.
type sampleFlag struct {
	records int
	feed    bool
}

func (s *sampleFlag) String() string {
	if s.feed {
		return "-"
	}
	return strconv.Itoa(s.records)
}

// Type is what the help calls the value.
func (*sampleFlag) Type() string { return "records" }

// Set takes a number or -.
func (s *sampleFlag) Set(text string) error {
	n, err := strconv.Atoi(text)
	if s.feed = text == "-"; !s.feed && (err != nil || n < 0 || n > maxSample) {
		return fmt.Errorf("it must be 0 to %d records, or - for standard input", maxSample)
	}
	s.records = n
	return nil
}

// checkFeed says what events from standard input would become.
func (p *Program) checkFeed(ctx context.Context) error {
	c, err := config.LoadEvents(p.Lookup, p.Environ)
	if err != nil {
		return err
	}
	if c.Event.Format == "bson" {
		return usageError{errors.New("--sample - reads text, and EVENT_FORMAT is bson: sample the topic itself, with --sample 100")}
	}
	_, definition, err := connect.NewDecoder(c)
	if err != nil {
		return err
	}
	var view checkView
	done := make(chan error, 1)
	go func() { // reading cannot be interrupted; the program ends when it is
		sample, err := check.Feed(p.Stdin, time.Now().UnixMilli(), connect.Decoding(c, definition), connect.Bucketing(c, definition, false), &view.Findings)
		view.Samples = []check.Sample{sample}
		done <- err
	}()
	select {
	case err = <-done:
	case <-ctx.Done():
		return fmt.Errorf("interrupted: %w", context.Cause(ctx))
	}
	if errors.Is(err, check.ErrNoEvents) {
		return usageError{err}
	}
	if err != nil {
		return err
	}
	if err := p.show(view, view.print); err != nil {
		return err
	}
	if view.Findings.Count(check.Wrong) > 0 {
		return errFound
	}
	return nil
}
