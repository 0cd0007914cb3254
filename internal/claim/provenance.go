package claim

import (
	"encoding/hex"
	"strings"
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
