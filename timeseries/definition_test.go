package timeseries

import (
	"fmt"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// formerDefinition is what versions without segments read a definition into.
type formerDefinition struct {
	ID      string `bson:"_id"`
	Version int32  `bson:"version"`
	Options struct {
		TimeField          string `bson:"timeField"`
		MetaField          string `bson:"metaField,omitempty"`
		Granularity        string `bson:"granularity,omitempty"`
		MaxSpanSeconds     int32  `bson:"bucketMaxSpanSeconds"`
		RoundingSeconds    int32  `bson:"bucketRoundingSeconds,omitempty"`
		ExpireAfterSeconds int64  `bson:"expireAfterSeconds,omitempty"`
	} `bson:",inline"`
}

// formerRead is how they read it: what their checks say of the bucketing, in their order, and nothing of the fields' names.
func formerRead(document bson.Raw) (d formerDefinition, err error) {
	if err := bson.Unmarshal(document, &d); err != nil {
		return d, fmt.Errorf("the document %q is damaged: %w", "options", err)
	}
	o := d.Options
	span := map[string]int32{"seconds": 3600, "minutes": 86400, "hours": 2592000}[o.Granularity]
	switch {
	case o.Granularity == "" && o.MaxSpanSeconds == o.RoundingSeconds:
	case o.Granularity == "":
		err = fmt.Errorf("bucketMaxSpanSeconds is %d and bucketRoundingSeconds %d", o.MaxSpanSeconds, o.RoundingSeconds)
	case span == 0:
		err = fmt.Errorf("granularity is %q: it must be seconds, minutes or hours", o.Granularity)
	case o.MaxSpanSeconds != 0 && o.MaxSpanSeconds != span || o.RoundingSeconds != 0:
		err = fmt.Errorf("granularity %s implies it", o.Granularity)
	}
	if err != nil {
		return d, fmt.Errorf("the document %q was edited and contradicts itself: %w; no setting can match it: correct the document", "options", err)
	}
	return d, nil
}

// definedOptions are normalised options of every kind of bucketing.
func definedOptions(t *testing.T) (all []Options) {
	t.Helper()
	for _, o := range []Options{
		{TimeField: "time"},
		{TimeField: "time", MetaField: "meta", Granularity: Minutes, ExpireAfterSeconds: 60},
		{TimeField: "t", MetaField: "m", Granularity: Hours},
		{TimeField: "time", MetaField: "meta", MaxSpanSeconds: 7200, RoundingSeconds: 7200},
	} {
		o, err := o.Normalize()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, o)
	}
	return all
}

func stored(t *testing.T, d Definition) bson.Raw {
	t.Helper()
	raw, err := bson.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestDefinitionsAreReadAsTheyWereWritten(t *testing.T) {
	for _, o := range definedOptions(t) {
		for _, segments := range []bool{false, true} {
			d := Definition{ID: DefinitionID, Version: 7, Options: o, Segments: segments}
			if got, err := ReadDefinition(stored(t, d)); err != nil || got != d {
				t.Errorf("%+v is read as %+v, %v", d, got, err)
			}
		}
	}
}

// TestFormerVersionsRefuseSegments: they say why, in words of ours; a collection without segments is theirs as before.
func TestFormerVersionsRefuseSegments(t *testing.T) {
	for _, o := range definedOptions(t) {
		d := Definition{ID: DefinitionID, Version: 1, Options: o}
		former, err := formerRead(stored(t, d))
		if err != nil || former.Options.Granularity != string(o.Granularity) || former.Options.MaxSpanSeconds != o.MaxSpanSeconds {
			t.Errorf("without segments they read %+v, %v of %+v", former, err, d)
		}
		raw, err := bson.Marshal(former)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ReadDefinition(raw); err != nil || got != d {
			t.Errorf("what they wrote is read as %+v, %v; want %+v", got, err, d)
		}
		d.Segments = true
		_, err = formerRead(stored(t, d))
		if err == nil || !strings.Contains(err.Error(), "the collection has segments: update waterwheel to a version that knows them") {
			t.Errorf("with segments they say %v of %+v", err, d)
		}
	}
}

// TestDefinitionWithoutTheNote: who takes the note out by hand, since an older version asks for it, does not change the options.
func TestDefinitionWithoutTheNote(t *testing.T) {
	for _, o := range definedOptions(t) {
		raw, err := bson.Marshal(struct {
			Options  `bson:",inline"`
			Segments bool `bson:"segments"`
		}{o, true})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ReadDefinition(raw); err != nil || got.Options != o || !got.Segments {
			t.Errorf("read as %+v, %v; want %+v", got, err, o)
		}
	}
}
