package timeseries

import (
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// DefinitionID is the _id of the document of the options collection that defines the time series.
const DefinitionID = "options"

// Definition is the document that defines a time series: its options, and a version that counts their changes from 1.
type Definition struct {
	ID      string `bson:"_id"`
	Version int32  `bson:"version"`
	Options `bson:",inline"`
	// Segments: the collection may hold segments. That is never taken back.
	Segments bool `bson:"segments,omitempty"`
}

// In a definition with segments a note stands behind the granularity, and customGranularity before it where there is none. The
// versions that know no segments ignore the field segments, and would replace the view by one that shows measurements twice; a
// granularity that is none they refuse, and print.
const (
	customGranularity = "custom"
	segmentsNote      = "; the collection has segments: update waterwheel to a version that knows them"
)

// StoredGranularity is the granularity as the document has it; empty: the document has none.
func (d Definition) StoredGranularity() string {
	switch {
	case !d.Segments:
		return string(d.Granularity)
	case d.Granularity == "":
		return customGranularity + segmentsNote
	}
	return string(d.Granularity) + segmentsNote
}

// withoutNote is the granularity of a stored one.
func withoutNote(stored Granularity) Granularity {
	name := strings.TrimSuffix(string(stored), segmentsNote)
	if name == customGranularity {
		return ""
	}
	return Granularity(name)
}

// MarshalBSON encodes the document as it is stored.
func (d Definition) MarshalBSON() ([]byte, error) {
	type fields Definition // without this method
	d.Granularity = Granularity(d.StoredGranularity())
	return bson.Marshal(fields(d))
}

// ReadDefinition reads a stored definition, with its options normalised. The error says what is wrong with the document.
func ReadDefinition(document bson.Raw) (d Definition, err error) {
	if err := bson.Unmarshal(document, &d); err != nil {
		return d, fmt.Errorf("the document %q is damaged: %w", DefinitionID, err)
	}
	if d.Segments {
		d.Granularity = withoutNote(d.Granularity)
	}
	if d.Options, err = d.Normalize(); err != nil {
		return d, fmt.Errorf("the document %q was edited and contradicts itself: %w; no setting can match it: correct the document",
			DefinitionID, err)
	}
	return d, nil
}
