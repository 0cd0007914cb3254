package collection

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
	"waterwheel/internal/words"
)

// ErrNotSetUp means that the collections of the time series do not exist, or lack an index.
var ErrNotSetUp = errors.New("the collection is not set up: run `waterwheel init` or `waterwheel run`")

// ReadDefinition reads the definition of a time series from its options collection. It returns ErrNotSetUp if there is no such
// time series.
func ReadDefinition(ctx context.Context, c mongodb.Collection) (d timeseries.Definition, err error) {
	const operation = "reading the collection's options"
	raw, err := mongodb.First(ctx, c, mongodb.Query{Filter: mongodb.WithID(timeseries.DefinitionID)})
	switch {
	case err != nil:
		return d, mongodb.Failure(operation, err)
	case raw == nil:
		return d, ErrNotSetUp
	}
	if d, err = timeseries.ReadDefinition(raw); err != nil {
		return d, fmt.Errorf("%s: %w", operation, err)
	}
	return d, nil
}

// define writes the definition unless there is one. An existing definition is adopted if it fits the wanted options.
func (s *series) define(ctx context.Context) error {
	d, err := ReadDefinition(ctx, s.ports.Options)
	if errors.Is(err, ErrNotSetUp) {
		d, err = insertDefinition(ctx, s.ports.Options, timeseries.Definition{
			ID: timeseries.DefinitionID, Version: 1, Options: s.options, RollupOf: s.rollupOf,
		})
	}
	if err != nil {
		return err
	}
	return s.adopt(d)
}

// adopt takes over the options of the collection if they equal the wanted ones, or if only the bucketing was raised or the expiry
// changed since. Without this no consumer could start again before its settings were changed too.
func (s *series) adopt(d timeseries.Definition) error {
	have := d.Options
	if d.RollupOf != s.rollupOf {
		return rollupConflict(s.namespace(), d.RollupOf, s.rollupOf)
	}
	grown, err := s.options.Change(have)
	if err != nil || grown != have {
		return compareOptions(s.namespace(), s.options, have)
	}
	if grown.MaxSpanSeconds != s.options.MaxSpanSeconds || grown.Granularity != s.options.Granularity {
		s.ignored = append(s.ignored, Ignored{
			Setting: "MONGODB_GRANULARITY and MONGODB_BUCKET_MAX_SPAN", Value: bucketing(s.options), Holds: bucketing(grown),
			Advice: "the collection's bucket span was raised later: set both to the collection's values",
		})
	}
	if grown.ExpireAfterSeconds != s.options.ExpireAfterSeconds {
		setting := "MONGODB_EXPIRE_AFTER"
		if s.rollupOf != "" {
			setting = "the expiry of this level in ROLLUP_LEVELS"
		}
		s.ignored = append(s.ignored, Ignored{
			Setting: setting, Value: expiry(s.options), Holds: expiry(grown),
			Advice: "set it to the collection's value, or change the collection with `waterwheel collection set-expiry`",
		})
	}
	s.options, s.segments = grown, d.Segments
	return nil
}

// Ignored is a setting without effect, because the existing collection has another value.
type Ignored struct {
	Setting, Value string
	// Holds is the collection's value. Advice says how to make both agree.
	Holds, Advice string
}

// warnIgnored logs the ignored settings.
func (s *series) warnIgnored() {
	for _, i := range s.ignored {
		s.log().Warn(i.Setting+" ignored: the collection has another value; "+i.Advice, "collection_value", i.Holds, "setting_value", i.Value)
	}
}

// expiry formats the age at which measurements are deleted, as a person sets it.
func expiry(o timeseries.Options) string {
	if o.ExpireAfterSeconds == 0 {
		return "never"
	}
	return words.Span(lifetime(o))
}

// bucketing formats the span of buckets as a person sets it.
func bucketing(o timeseries.Options) string {
	span := words.Span(time.Duration(o.MaxSpanSeconds) * time.Second)
	if o.Granularity == "" {
		return span
	}
	return span + " (" + string(o.Granularity) + ")"
}

// lifetime returns the age at which measurements are deleted. Zero means never.
func lifetime(o timeseries.Options) time.Duration {
	return time.Duration(o.ExpireAfterSeconds) * time.Second
}

// insertDefinition inserts the definition and returns the existing one if another consumer was quicker.
func insertDefinition(ctx context.Context, c mongodb.Collection, d timeseries.Definition) (timeseries.Definition, error) {
	inserted, err := mongodb.Changed(c.Insert(ctx, []bson.Raw{mongodb.Document(d)}))
	if err == nil && !inserted {
		return ReadDefinition(ctx, c)
	}
	return d, mongodb.Failure("writing the collection's options", err)
}

// compareOptions names each setting in which the wanted options differ from those of the collection.
func compareOptions(namespace string, want, have timeseries.Options) error {
	wanted, had := settingsOf(want), settingsOf(have)
	var differences []string
	for i, s := range had {
		if wanted[i] != s {
			differences = append(differences, fmt.Sprintf("%s is %s in the settings and %s in the collection", s.name, wanted[i].value, s.value))
		}
	}
	if differences == nil {
		return nil
	}
	return fmt.Errorf("%s exists with other options: %s; set these to the collection's values, or choose another MONGODB_COLLECTION",
		namespace, strings.Join(differences, "; "))
}

// setting is a setting of the program in its written form.
type setting struct{ name, value string }

// settingsOf returns the settings that make a collection with these options. A granularity implies span and rounding, which may
// not be set beside it.
func settingsOf(o timeseries.Options) []setting {
	if o.Granularity != "" {
		o.MaxSpanSeconds, o.RoundingSeconds = 0, 0
	}
	text := func(name, value string) setting {
		if value == "" {
			return setting{name, "not set"}
		}
		return setting{name, strconv.Quote(value)}
	}
	duration := func(name string, seconds int64) setting {
		if seconds == 0 {
			return setting{name, "not set"}
		}
		return setting{name, fmt.Sprintf("%dh%dm%ds", seconds/3600, seconds/60%60, seconds%60)} // a time.Duration ends after 292 years
	}
	return []setting{
		text("MONGODB_TIME_FIELD", o.TimeField),
		text("MONGODB_META_FIELD", o.MetaField),
		text("MONGODB_GRANULARITY", string(o.Granularity)),
		duration("MONGODB_BUCKET_MAX_SPAN", int64(o.MaxSpanSeconds)),
		duration("MONGODB_BUCKET_ROUNDING", int64(o.RoundingSeconds)),
	}
}
