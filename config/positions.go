package config

import (
	"fmt"
	"strconv"
	"strings"
)

// Position is a place in a partition of Kafka.
type Position struct {
	Topic     string
	Partition int32
	Offset    int64
}

// Positions are places in Kafka.
type Positions []Position

// UnmarshalText reads places in the form topic/partition/offset, separated by commas.
func (p *Positions) UnmarshalText(text []byte) error {
	*p = nil
	for place := range strings.SplitSeq(string(text), ",") {
		one, err := parsePosition(strings.TrimSpace(place))
		if err != nil {
			return err
		}
		*p = append(*p, one)
	}
	return nil
}

func parsePosition(text string) (Position, error) {
	parts := strings.Split(text, "/")
	if len(parts) != 3 || parts[0] == "" {
		return Position{}, fmt.Errorf("%s is no place such as events/3/182 (topic/partition/offset)", quoted(text))
	}
	partition, err := strconv.ParseUint(parts[1], 10, 31)
	if err != nil {
		return Position{}, fmt.Errorf("%s is no place such as events/3/182: its partition is no number", quoted(text))
	}
	offset, err := strconv.ParseUint(parts[2], 10, 63)
	if err != nil {
		return Position{}, fmt.Errorf("%s is no place such as events/3/182: its offset is no number", quoted(text))
	}
	return Position{Topic: parts[0], Partition: int32(partition), Offset: int64(offset)}, nil
}

// String is the setting's own notation.
func (p Positions) String() string {
	texts := make([]string, len(p))
	for i, one := range p {
		texts[i] = fmt.Sprintf("%s/%d/%d", one.Topic, one.Partition, one.Offset)
	}
	return strings.Join(texts, ",")
}
