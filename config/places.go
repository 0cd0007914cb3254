package config

import (
	"fmt"
	"strings"

	"waterwheel/internal/record"
)

// Places is a list of places in Kafka.
type Places []record.Place

// UnmarshalText reads places in the form topic/partition/offset, separated by commas.
func (p *Places) UnmarshalText(text []byte) error {
	*p = nil
	for part := range strings.SplitSeq(string(text), ",") {
		part = strings.TrimSpace(part)
		place, err := record.ParsePlace(part)
		if err != nil {
			return fmt.Errorf("%s %w", quoted(part), err)
		}
		*p = append(*p, place)
	}
	return nil
}

// String returns the setting's own notation.
func (p Places) String() string {
	texts := make([]string, len(p))
	for i := range p {
		texts[i] = p[i].String()
	}
	return strings.Join(texts, ",")
}
