package claim

import (
	"fmt"

	"waterwheel/internal/record"
)

// OutOfRange says what to do about an offset beyond the log's end.
type OutOfRange string

// The policies of KAFKA_OUT_OF_RANGE.
const (
	StopOutOfRange     OutOfRange = "stop"
	EarliestOutOfRange OutOfRange = "earliest"
	LatestOutOfRange   OutOfRange = "latest"
)

// Facts are what the start of a partition is decided on.
type Facts struct {
	Partition int32
	Pipeline  Provenance // of the present topic, to the collection of now
	Committed Committed
	Document  Document
	// FirstPartitions is how many partitions the topic had when the collection first saw it under its present id; 0 when it
	// knows the topic under another id only.
	FirstPartitions int32
	Bounds          record.Bounds
	OutOfRange      OutOfRange
}

// Start is where a partition begins.
type Start struct {
	Offset int64
	// Lost is how many records retention took before they were read.
	Lost int64
	// Beyond is by how much the offset to begin with was beyond the log's end, so that KAFKA_OUT_OF_RANGE chose another.
	Beyond int64
}

// Committed is the offset to commit before the claim: up to it everything is done. What retention took is not, before it is noted.
func (s Start) Committed() int64 { return s.Offset - s.Lost }

// Start decides where a partition begins, so that D is read for the offset from which records will really come. The error is
// a *record.StopError.
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
			"reset the group's offset with kafka-consumer-groups.sh, or set KAFKA_OUT_OF_RANGE to earliest (only what is "+
			"missing is stored) or latest", offset, f.Bounds.End)}
}

// wanted is the offset to begin with, wherever the log begins and ends now.
func (f Facts) wanted() (int64, error) {
	switch meaning, of := f.Pipeline.Meaning(f.Committed); meaning {
	case OtherCollection:
		return 0, &record.StopError{Reason: "other_collection", Detail: fmt.Sprintf(
			"the group's offset was committed by a pipeline that writes %s, this one writes %s: two pipelines must not "+
				"share a group id; use another KAFKA_GROUP_ID, or reset the offsets with kafka-consumer-groups.sh "+
				"--reset-offsets if the collection was changed on purpose", of.Namespace, f.Pipeline.Namespace)}
	case OtherTopic:
		return f.Bounds.First, nil
	case OfAnotherProgram:
		if f.Document.Found || f.Document.HasBuckets { // this pipeline had the partition before: what the other read is not stored
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
	return f.Bounds.First, nil // added later, or of a topic created again: nothing of it may be missed
}

// ofDocument is where the last owner of the partition began.
func (f Facts) ofDocument() int64 {
	if f.Document.Found && f.Document.TopicID == f.Pipeline.TopicID {
		return f.Document.Start
	}
	return f.Bounds.First // the document is of a topic deleted since, or was deleted
}
