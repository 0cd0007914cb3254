package claim

import (
	"encoding/hex"
	"strings"
)

// metadataVersion opens the metadata of our commits.
const metadataVersion = "ww1"

// ConsumedMetadata is the metadata of a commit made before the claim of a partition whose offset another program committed:
// it is no more ours than that one was.
const ConsumedMetadata = metadataVersion + ";of another program"

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

// Committed is what a group has committed for a partition.
type Committed struct {
	Offset   int64 // -1 if the group has committed nothing
	Metadata string
	// Consumed reports whether a consumer committed it, after it had read up to there. Otherwise a tool did, for an operator.
	Consumed bool
}

// OfAnotherProgram reports whether a consumer of another program has read up to the offset. What that read is not stored here.
func (c Committed) OfAnotherProgram() bool {
	_, ours := ParseProvenance(c.Metadata)
	return c.Consumed && !ours && c.Offset >= 0 || c.Metadata == ConsumedMetadata
}

// Meaning is what a committed offset means to a pipeline.
type Meaning uint8

// The meanings, in the order in which they are looked for.
const (
	// Nothing is committed.
	Nothing Meaning = iota
	// OfAnotherProgram means that a consumer of another program has read up to it.
	OfAnotherProgram
	// AsItIs means an operator's reset, a mirror's copy and the like. The pipeline begins there.
	AsItIs
	// OtherCollection means that a pipeline committed it that writes another collection. Two pipelines must not share a group.
	OtherCollection
	// OtherTopic means that it is of a topic of this name that was deleted since.
	OtherTopic
	// Ours means that this pipeline has stored everything before it.
	Ours
)

// Meaning tells what a committed offset means to the pipeline p, and where it says that it belongs.
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
