package sink

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/timeseries"
)

// optionsID is the _id of the one document of the options collection.
const optionsID = "options"

// definition is the document that defines a time series: MongoDB's names of its options, and a version that counts their
// changes from 1.
type definition struct {
	ID          string                 `bson:"_id"`
	Version     int32                  `bson:"version"`
	TimeField   string                 `bson:"timeField"`
	MetaField   string                 `bson:"metaField,omitempty"`
	Granularity timeseries.Granularity `bson:"granularity,omitempty"`
	MaxSpan     int32                  `bson:"bucketMaxSpanSeconds"`
	Rounding    int32                  `bson:"bucketRoundingSeconds,omitempty"` // custom bucketing only
	ExpireAfter int64                  `bson:"expireAfterSeconds,omitempty"`
}

func (d definition) options() timeseries.Options {
	return timeseries.Options{
		TimeField: d.TimeField, MetaField: d.MetaField, Granularity: d.Granularity, MaxSpanSeconds: d.MaxSpan,
		RoundingSeconds: d.Rounding, ExpireAfterSeconds: d.ExpireAfter,
	}
}

// with is the definition of these options.
func (d definition) with(o timeseries.Options) definition {
	d.TimeField, d.MetaField, d.Granularity = o.TimeField, o.MetaField, o.Granularity
	d.MaxSpan, d.Rounding, d.ExpireAfter = o.MaxSpanSeconds, o.RoundingSeconds, o.ExpireAfterSeconds
	return d
}

// MismatchError: the collection is defined otherwise than this consumer's settings say.
type MismatchError struct {
	Namespace   string
	Differences []string // one sentence a setting
}

// Error lists every differing setting.
func (e *MismatchError) Error() string {
	return fmt.Sprintf("%s exists and is defined otherwise: %s; set these to the collection's values, or choose another MONGODB_COLLECTION",
		e.Namespace, strings.Join(e.Differences, "; "))
}

// ErrNotSetUp: the collections of the time series do not exist, or lack an index.
var ErrNotSetUp = errors.New("the collection is not set up: run `consumer init`, or let `consumer run` do it")

// Definition reads how the collection is defined now, and the version of that: one more for every change.
func (s *Store) Definition(ctx context.Context) (timeseries.Options, int32, error) {
	d, err := readDefinition(ctx, s.ports.Options)
	if err != nil {
		return timeseries.Options{}, 0, err
	}
	return d.options(), d.Version, nil
}

// SetCollection makes look-ups follow changed options: a bucket whose minimum time is less than the new span ago may take a
// measurement. The names of the fields do not change.
func (s *Store) SetCollection(o timeseries.Options) { s.collection.Store(&o) }

// span is how long after its minimum time a bucket takes measurements, in milliseconds.
func (s *Store) span() int64 { return s.collection.Load().Span() }

func readDefinition(ctx context.Context, c Collection) (definition, error) {
	const doing = "reading the collection's options"
	var d definition
	var broken error
	err := c.Find(ctx, Query{Filter: document(bson.D{{Key: "_id", Value: optionsID}}), Limit: 1}, func(raw bson.Raw) error {
		broken = bson.Unmarshal(raw, &d)
		return nil
	})
	switch {
	case err != nil:
		return definition{}, failure(doing, err)
	case broken != nil:
		return definition{}, fmt.Errorf("%s: the document %q was damaged: %w", doing, optionsID, broken)
	case d.ID == "":
		return definition{}, ErrNotSetUp
	}
	o, err := d.options().Normalize()
	if err != nil {
		return definition{}, fmt.Errorf("%s: the document %q was edited and contradicts itself: %w; no setting can follow it: "+
			"correct the document", doing, optionsID, err)
	}
	return d.with(o), nil
}

// define writes the definition unless there is one, which then holds if it fits what is wanted.
func (s *series) define(ctx context.Context) error {
	c, o := s.ports.Options, s.options
	d, err := readDefinition(ctx, c)
	if errors.Is(err, ErrNotSetUp) {
		d, err = insertDefinition(ctx, c, definition{ID: optionsID, Version: 1}.with(o))
	}
	if err != nil {
		return err
	}
	return s.adopt(d.options())
}

// adopt takes the options of the collection if they are the wanted ones, or were made from them since by raising the
// granularity: otherwise no consumer could be started again before its settings were changed as well.
func (s *series) adopt(have timeseries.Options) error {
	raised := have
	raised.ExpireAfterSeconds = s.options.ExpireAfterSeconds
	grown, err := s.options.Change(raised)
	if err != nil || grown != have {
		return compareOptions(s.namespace(), s.options, have)
	}
	if grown != s.options {
		s.log.Warn("the collection's granularity was raised since: the settings are not followed",
			"collection", s.namespace(), "granularity", grown.Granularity, "span_seconds", grown.MaxSpanSeconds)
		s.options = grown
	}
	return nil
}

// insertDefinition returns the definition that then exists: another consumer may have been quicker.
func insertDefinition(ctx context.Context, c Collection, d definition) (definition, error) {
	const doing = "writing the collection's options"
	raw, err := bson.Marshal(d)
	if err != nil {
		return definition{}, fmt.Errorf("%s: %w", doing, err)
	}
	reply, err := c.Insert(ctx, []bson.Raw{raw})
	if err == nil && slices.ContainsFunc(reply.Errors, func(e WriteError) bool { return e.Code == codeDuplicateKey }) {
		return readDefinition(ctx, c)
	}
	if _, err = changed(doing, reply, err); err != nil {
		return definition{}, err
	}
	return d, nil
}

// compareOptions names each setting in which the wanted options differ from those of the collection.
func compareOptions(namespace string, want, have timeseries.Options) error {
	wanted, had := settingsOf(want), settingsOf(have)
	var differences []string
	for i, s := range had {
		if wanted[i] != s {
			differences = append(differences, fmt.Sprintf("%s is %s here and %s in the collection", s.name, wanted[i].value, s.value))
		}
	}
	if differences == nil {
		return nil
	}
	return &MismatchError{Namespace: namespace, Differences: differences}
}

// setting is a setting of the program as it is written.
type setting struct{ name, value string }

// settingsOf are the settings that make a collection of these options. A granularity implies span and rounding, which may
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
		return setting{name, fmt.Sprintf("%dh%dm%ds", seconds/3600, seconds/60%60, seconds%60)} // a Duration ends after 292 years
	}
	return []setting{
		text("MONGODB_TIME_FIELD", o.TimeField),
		text("MONGODB_META_FIELD", o.MetaField),
		text("MONGODB_GRANULARITY", string(o.Granularity)),
		duration("MONGODB_BUCKET_MAX_SPAN", int64(o.MaxSpanSeconds)),
		duration("MONGODB_BUCKET_ROUNDING", int64(o.RoundingSeconds)),
		duration("MONGODB_EXPIRE_AFTER", o.ExpireAfterSeconds),
	}
}
