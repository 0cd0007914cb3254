package record

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Partition is a partition of a topic, by name.
type Partition struct {
	Topic  string `json:"topic"`
	Number int32  `json:"partition"`
}

// String returns topic/partition.
func (p Partition) String() string { return fmt.Sprintf("%s/%d", p.Topic, p.Number) }

// Compare orders partitions by topic, then by number.
func (p Partition) Compare(q Partition) int {
	return cmp.Or(cmp.Compare(p.Topic, q.Topic), cmp.Compare(p.Number, q.Number))
}

// Place is the place of a record.
type Place struct {
	Partition
	Offset int64 `json:"offset"`
}

// String returns topic/partition/offset.
func (p Place) String() string { return fmt.Sprintf("%s/%d", p.Partition, p.Offset) }

// ParsePlace parses topic/partition/offset. The error continues a sentence that begins with the text.
func ParsePlace(text string) (Place, error) {
	parts := strings.Split(text, "/") // a topic's name has no slash
	if len(parts) != 3 || parts[0] == "" {
		return Place{}, errNoPlace
	}
	number, wrong := strconv.ParseUint(parts[1], 10, 31)
	offset, err := strconv.ParseUint(parts[2], 10, 63)
	if wrong != nil || err != nil {
		return Place{}, errNoPlace
	}
	return Place{Partition{parts[0], int32(number)}, int64(offset)}, nil
}

var errNoPlace = errors.New("is not a position: write TOPIC/PARTITION/OFFSET, as events/3/182")

// FormatTopicID formats a topic id as Kafka's own tools do.
func FormatTopicID(id [16]byte) string { return base64.RawURLEncoding.EncodeToString(id[:]) }
