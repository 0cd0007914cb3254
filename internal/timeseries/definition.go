package timeseries

import (
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// DefinitionID is the _id of the document of the options collection that defines the time series.
const DefinitionID = "options"

// Definition is the document that defines a time series: its options, and a version that counts their changes from 1.
type Definition struct {
	ID      string `bson:"_id"`
	Version int32  `bson:"version"`
	Options `bson:",inline"`
	// Segments means that the collection may hold segments. It is never unset.
	Segments bool `bson:"segments,omitempty"`
	// RollupOf is the name of the time series whose totals this one holds. Such a series holds nothing else. Empty means that it
	// holds measurements.
	RollupOf string `bson:"rollupOf,omitempty"`
}

// ReadDefinition reads a stored definition, with its options normalised. The error says what is wrong with the document.
func ReadDefinition(document bson.Raw) (d Definition, err error) {
	if err := bson.Unmarshal(document, &d); err != nil {
		return d, fmt.Errorf("the document %q of the options collection is damaged: %w", DefinitionID, err)
	}
	if d.Options, err = d.Normalize(); err != nil {
		return d, fmt.Errorf("the document %q of the options collection was edited and is invalid: %w; correct the document, because no settings can match it",
			DefinitionID, err)
	}
	return d, nil
}
