package timeseries

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// definedOptions returns normalised options for every kind of bucketing.
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

// TestDefinitionHasPlainValues checks that the document contains the granularity itself, for programs and for people.
func TestDefinitionHasPlainValues(t *testing.T) {
	for _, o := range definedOptions(t) {
		raw := stored(t, Definition{ID: DefinitionID, Version: 7, Options: o, Segments: true})
		if got, _ := raw.Lookup("granularity").StringValueOK(); got != string(o.Granularity) {
			t.Errorf("%+v is stored with the granularity %q", o, got)
		}
		segments, _ := raw.Lookup("segments").BooleanOK()
		if !segments {
			t.Errorf("that there are segments is not in %v", raw)
		}
	}
}

// TestDefinitionTakesNoRemark checks that a granularity with additional text is refused.
func TestDefinitionTakesNoRemark(t *testing.T) {
	for _, granularity := range []Granularity{"hours; see the wiki", "custom; see the wiki", "weeks"} {
		if _, err := ReadDefinition(stored(t, Definition{ID: DefinitionID, Options: Options{TimeField: "t", Granularity: granularity}})); err == nil {
			t.Errorf("%q is a granularity", granularity)
		}
	}
}
