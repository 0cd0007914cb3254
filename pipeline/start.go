package pipeline

import (
	"encoding/hex"
	"fmt"
	"strings"
)

// OutOfRange says what to do about a committed offset beyond the log's end.
type OutOfRange string

// The policies of KAFKA_OUT_OF_RANGE.
const (
	StopOutOfRange     OutOfRange = "stop"
	EarliestOutOfRange OutOfRange = "earliest"
	LatestOutOfRange   OutOfRange = "latest"
)

// metadataVersion opens the metadata of our commits.
const metadataVersion = "ww1"

// consumedMetadata is the metadata of a commit made before the claim of a partition whose offset another program
// committed: it is no more ours than that one was.
const consumedMetadata = metadataVersion + ";of another program"

// Provenance is what the metadata of a commit says about where its offset belongs.
type Provenance struct {
	ClusterID string
	TopicID   [16]byte
	Namespace string // database.collection
}

// String is the metadata of a commit: ww1;cluster id;topic id in hex;database.collection.
func (p Provenance) String() string {
	return strings.Join([]string{metadataVersion, p.ClusterID, hex.EncodeToString(p.TopicID[:]), p.Namespace}, ";")
}

// ParseProvenance reads a commit's metadata; false when it is not ours.
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

// startFacts are what the start of a partition is decided on.
type startFacts struct {
	partition  int32
	ours       Provenance
	committed  int64 // -1: none
	metadata   string
	consumed   bool // by another program's consumer
	seen       Seen
	bounds     Bounds
	outOfRange OutOfRange
}

// start is where a partition begins, and how many records retention took before they were read.
type start struct {
	offset int64
	lost   int64
}

// resolveStart decides where a partition begins, so that D is read for the offset from which records will really come.
func resolveStart(f startFacts) (start, error) {
	offset, err := wantedStart(f)
	if err != nil {
		return start{}, err
	}
	switch {
	case offset < f.bounds.First:
		return start{offset: f.bounds.First, lost: f.bounds.First - offset}, nil
	case !f.bounds.exceededBy(offset):
		return start{offset: offset}, nil
	}
	switch f.outOfRange {
	case EarliestOutOfRange:
		return start{offset: f.bounds.First}, nil
	case LatestOutOfRange:
		return start{offset: f.bounds.End}, nil
	}
	return start{}, &StopError{"offset_out_of_range", fmt.Sprintf(
		"the committed offset %d is beyond the log's end %d: the log was truncated or the offset was set by hand; "+
			"reset the group's offset with kafka-consumer-groups.sh, or set KAFKA_OUT_OF_RANGE to earliest (only what is "+
			"missing is stored) or latest", offset, f.bounds.End)}
}

func wantedStart(f startFacts) (int64, error) {
	if f.committed >= 0 {
		p, ok := ParseProvenance(f.metadata)
		switch {
		case !ok && f.consumed && f.begun(): // what it read is not stored here
			return min(f.committed, documentStart(f)), nil
		case !ok || p.ClusterID != f.ours.ClusterID: // an operator's reset, or a mirror's copy: taken as it is
			return f.committed, nil
		case p.Namespace != f.ours.Namespace:
			return 0, &StopError{"other_collection", fmt.Sprintf(
				"the group's offset was committed by a pipeline that writes %s, this one writes %s: two pipelines must not "+
					"share a group id; use another KAFKA_GROUP_ID, or reset the offsets with kafka-consumer-groups.sh "+
					"--reset-offsets if the collection was changed on purpose", p.Namespace, f.ours.Namespace)}
		case p.TopicID != f.ours.TopicID: // of a topic deleted since
			return f.bounds.First, nil
		}
		return f.committed, nil
	}
	if f.seen.Found {
		return documentStart(f), nil
	}
	if f.partition < f.seen.FirstPartitions {
		return f.bounds.Start, nil
	}
	return f.bounds.First, nil // added later, or of a topic created again: nothing of it may be missed
}

// begun tells whether this pipeline had the partition before.
func (f startFacts) begun() bool { return f.seen.Found || f.seen.HasBuckets }

// documentStart is where the last owner of the partition began.
func documentStart(f startFacts) int64 {
	if f.seen.Found && f.seen.TopicID == f.ours.TopicID {
		return f.seen.Start
	}
	return f.bounds.First // the document is of a topic deleted since, or was deleted
}
