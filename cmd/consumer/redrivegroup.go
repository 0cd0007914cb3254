package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"waterwheel/config"
	"waterwheel/dlq"
	"waterwheel/kafka"
	"waterwheel/record"
)

// redriveGroup is the name of the group of a selection.
func redriveGroup(c config.Config, s dlq.Selection) string {
	base := redriveBase(c)
	if text := s.String(); text != "" {
		return base + "." + text
	}
	return base
}

func redriveBase(c config.Config) string { return c.Kafka.GroupID + ".redrive" }

// redriveSelection is the selection of a group; false: it is none of a re-drive.
func redriveSelection(c config.Config, group string) (dlq.Selection, bool) {
	text, ok := strings.CutPrefix(group, redriveBase(c))
	if !ok || text != "" && text[0] != '.' {
		return dlq.Selection{}, false
	}
	s, err := dlq.ParseSelection(strings.TrimPrefix(text, "."))
	return s, err == nil
}

// redrivePasts are what the groups of all selections have committed.
func redrivePasts(ctx context.Context, c config.Config, reader *letterReader, spans []dlq.Span) ([]dlq.Past, error) {
	var groups []string
	err := kafka.Patiently(ctx, func() (err error) {
		groups, err = reader.Groups(ctx, redriveBase(c))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("looking for other re-drives: %w", err)
	}
	var pasts []dlq.Past
	for _, group := range groups {
		selection, ok := redriveSelection(c, group)
		if !ok {
			continue
		}
		past := dlq.Past{Selection: selection, Committed: map[dlq.Place]dlq.Committed{}}
		for _, topic := range reader.topics {
			if err := addCommitted(ctx, reader, group, topic, spans, past.Committed); err != nil {
				return nil, fmt.Errorf("reading what the group %s has committed: %w", group, err)
			}
		}
		pasts = append(pasts, past)
	}
	slices.SortFunc(pasts, func(a, b dlq.Past) int { return cmp.Compare(a.Selection.String(), b.Selection.String()) })
	return pasts, nil
}

func addCommitted(ctx context.Context, reader *letterReader, group, topic string, spans []dlq.Span, out map[dlq.Place]dlq.Committed) error {
	var partitions []record.Partition
	for _, s := range spans {
		if s.Topic == topic {
			partitions = append(partitions, record.Partition{Topic: topic, Number: s.Partition})
		}
	}
	return kafka.Patiently(ctx, func() error {
		answers, err := reader.Committed(ctx, group, partitions)
		for _, a := range answers {
			if err == nil && a.Err != nil {
				err = a.Err
			}
			if a.Offset >= 0 {
				out[dlq.Place{Topic: a.Topic, Partition: a.Number}] = dlq.Committed{Offset: a.Offset, Metadata: a.Metadata}
			}
		}
		return err
	})
}

// splitPasts parts what this selection's group has committed from the others.
func splitPasts(pasts []dlq.Past, s dlq.Selection) (own dlq.Past, others []dlq.Past) {
	own.Selection = s
	for _, p := range pasts {
		if p.Selection.String() == s.String() {
			own.Committed = p.Committed
		} else {
			others = append(others, p)
		}
	}
	return own, others
}
