package claim

import (
	"fmt"

	"waterwheel/internal/record"
)

// OutOfRange is the policy for an offset beyond the log's end.
type OutOfRange string

// The policies of KAFKA_OUT_OF_RANGE.
const (
	StopOutOfRange     OutOfRange = "stop"
	EarliestOutOfRange OutOfRange = "earliest"
	LatestOutOfRange   OutOfRange = "latest"
)

// Facts are the facts that decide the start of a partition.
type Facts struct {
	Partition int32
	Pipeline  Provenance // of the present topic and collection
	Committed Committed
	Document  Document
	// FirstPartitions is how many partitions the topic had when the collection first saw its present id. Zero means that the
	// collection knows the topic only under another id.
	FirstPartitions int32
	Bounds          record.Bounds
	OutOfRange      OutOfRange
}

// Start is where a partition begins.
type Start struct {
	Offset int64
	// Lost is how many records retention deleted before they were read.
	Lost int64
	// Beyond is by how much the wanted offset was beyond the log's end, so that KAFKA_OUT_OF_RANGE chose another. Zero means that
	// it was not.
	Beyond int64
}

// Committed is the offset to commit before the claim. Everything before it is done. Records that retention deleted are not,
// until they are noted.
func (s Start) Committed() int64 { return s.Offset - s.Lost }

// Start decides where a partition begins, so that D is read for the offset from which records will really come. The error is
// always a *record.StopError.
func (f Facts) Start() (Start, error) {
	offset, err := f.wanted()
	if err != nil {
		return Start{}, err
	}
	switch {
	case offset < f.Bounds.First:
		return Start{Offset: f.Bounds.First, Lost: f.Bounds.First - offset}, nil
	case !f.Bounds.ExceededBy(offset):
		return Start{Offset: offset}, nil
	}
	beyond := offset - f.Bounds.End
	switch f.OutOfRange {
	case EarliestOutOfRange:
		return Start{Offset: f.Bounds.First, Beyond: beyond}, nil
	case LatestOutOfRange:
		return Start{Offset: f.Bounds.End, Beyond: beyond}, nil
	}
	return Start{}, &record.StopError{Reason: "offset_out_of_range", Detail: fmt.Sprintf(
		"the committed offset %d is beyond the log's end %d: the log was truncated or the offset was set by hand; "+
			"reset the group's offset with kafka-consumer-groups.sh, or set KAFKA_OUT_OF_RANGE to earliest (records that are already "+
			"stored are skipped) or latest", offset, f.Bounds.End)}
}

// wanted returns the offset to begin with, regardless of where the log begins and ends now.
func (f Facts) wanted() (int64, error) {
	switch meaning, of := f.Pipeline.Meaning(f.Committed); meaning {
	case OtherCollection:
		return 0, &record.StopError{Reason: "other_collection", Detail: fmt.Sprintf(
			"the group's offset was committed by a consumer that writes to %s, but this consumer writes to %s: all consumers of a "+
				"group must write to the same collection; use another KAFKA_GROUP_ID. If the collection was changed on purpose, reset the group's offsets with "+
				"kafka-consumer-groups.sh --reset-offsets", of.Namespace, f.Pipeline.Namespace)}
	case OtherTopic:
		return f.Bounds.First, nil
	case OfAnotherProgram:
		// If this pipeline had the partition before, the records that the other program read are not stored.
		if f.Document.Found || f.Document.HasBuckets {
			return min(f.Committed.Offset, f.ofDocument()), nil
		}
		return f.Committed.Offset, nil
	case AsItIs, Ours:
		return f.Committed.Offset, nil
	}
	switch {
	case f.Document.Found:
		return f.ofDocument(), nil
	case f.Partition < f.FirstPartitions:
		return f.Bounds.Start, nil
	}
	return f.Bounds.First, nil // the partition was added later, or the topic was created again, so no record may be missed
}

// ofDocument returns the offset at which the last owner of the partition began.
func (f Facts) ofDocument() int64 {
	if f.Document.Found && f.Document.TopicID == f.Pipeline.TopicID {
		return f.Document.Start
	}
	return f.Bounds.First // the document is of a topic deleted since, or it was deleted
}
