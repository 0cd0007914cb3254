package claim

import (
	"encoding/hex"
	"fmt"
	"strings"

	"waterwheel/internal/record"
)

// metadataVersion begins the metadata of our commits.
const metadataVersion = "ww1"

// ConsumedMetadata is the metadata of a commit that we make before the claim, if another program committed the partition's
// offset. Like that program's commit it does not count as ours.
const ConsumedMetadata = metadataVersion + ";of another program"

// Provenance says, in the metadata of a commit, where the commit's offset belongs.
type Provenance struct {
	ClusterID string
	TopicID   [16]byte
	Namespace string // database.collection
}

// String returns the metadata of a commit: ww1;cluster id;topic id in hex;database.collection.
func (p Provenance) String() string {
	return strings.Join([]string{metadataVersion, p.ClusterID, hex.EncodeToString(p.TopicID[:]), p.Namespace}, ";")
}

// ParseProvenance reads a commit's metadata. False means that the metadata is not ours.
func ParseProvenance(metadata string) (Provenance, bool) {
	parts := strings.SplitN(metadata, ";", 4)
	if len(parts) != 4 || parts[0] != metadataVersion {
		return Provenance{}, false
	}
	p := Provenance{ClusterID: parts[1], Namespace: parts[3]}
	id, err := hex.DecodeString(parts[2])
	if err != nil || len(id) != len(p.TopicID) {
		return Provenance{}, false
	}
	copy(p.TopicID[:], id)
	return p, true
}

// Committed is what a group has committed for a partition.
type Committed struct {
	Offset   int64 // -1 if the group has committed nothing
	Metadata string
	// Consumed means that a consumer committed the offset after it had read up to there. Otherwise a tool committed it for an
	// operator.
	Consumed bool
}

// OfAnotherProgram reports whether a consumer of another program has read up to the offset. The records that it read are not
// stored here.
func (c Committed) OfAnotherProgram() bool {
	_, ours := ParseProvenance(c.Metadata)
	return c.Consumed && !ours && c.Offset >= 0 || c.Metadata == ConsumedMetadata
}

// Meaning is what a committed offset means to a pipeline.
type Meaning uint8

// The meanings, in the order in which they are checked.
const (
	// Nothing means that nothing is committed.
	Nothing Meaning = iota
	// OfAnotherProgram means that a consumer of another program has read up to the offset.
	OfAnotherProgram
	// AsItIs means an operator's reset, a mirror's copy, or the like. The pipeline begins there.
	AsItIs
	// OtherCollection means that the pipeline that committed it writes another collection. Two pipelines must not share a group.
	OtherCollection
	// OtherTopic means that the offset is of a topic with this name that was deleted since.
	OtherTopic
	// Ours means that this pipeline has stored everything before it.
	Ours
)

// Meaning returns what a committed offset means to the pipeline p, and the provenance in its metadata.
func (p Provenance) Meaning(c Committed) (Meaning, Provenance) {
	of, ok := ParseProvenance(c.Metadata)
	switch {
	case c.Offset < 0:
		return Nothing, of
	case c.OfAnotherProgram():
		return OfAnotherProgram, of
	case !ok || of.ClusterID != p.ClusterID:
		return AsItIs, of
	case of.Namespace != p.Namespace:
		return OtherCollection, of
	case of.TopicID != p.TopicID:
		return OtherTopic, of
	}
	return Ours, of
}

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

// Start decides where a partition begins, so that the stored positions are read for the offset from which records will really
// come. The error is always a *record.StopError.
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

// LostContentError means that a collection is not set up, although the group has committed offsets of it.
type LostContentError struct {
	Namespace, Group string
	// Committed is a partition with the offset that the group has committed.
	Committed record.Place
}

// Error names the ways out.
func (e *LostContentError) Error() string {
	return fmt.Sprintf("the collection %s has lost its content: it is not set up, but the group %q has committed offset %d of %s for it. "+
		"The collection was dropped, or MONGODB_URI leads to another MongoDB. Restore the collection, or correct MONGODB_URI. "+
		"To read the records again, stop all consumers and run kafka-consumer-groups.sh --reset-offsets --to-earliest --execute. "+
		"To go on without the lost measurements, use --to-current instead of --to-earliest",
		e.Namespace, e.Group, e.Committed.Offset, e.Committed.Partition)
}

// RefuseEmpty returns a *LostContentError if the group has committed offsets of this pipeline, whose collection is not set up. Then
// the collection must not be set up again, because nobody would notice the loss. committed has the commits of partitions.
func (p Provenance) RefuseEmpty(group string, partitions []record.Partition, committed []Committed) error {
	for i, c := range committed {
		if meaning, _ := p.Meaning(c); meaning == Ours && c.Offset > 0 {
			return &LostContentError{p.Namespace, group, record.Place{Partition: partitions[i], Offset: c.Offset}}
		}
	}
	return nil
}
