package redrive

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"waterwheel/dlq"
	"waterwheel/internal/kafka"
	"waterwheel/internal/record"
)

// Group returns the consumer group that keeps the progress of a selection, for a given consumer group.
func Group(consumer string, s Selection) string {
	if text := s.String(); text != "" {
		return base(consumer) + "." + text
	}
	return base(consumer)
}

// base returns the common prefix of the names of all groups of re-drives.
func base(consumer string) string { return consumer + ".redrive" }

// selectionOf returns the selection of a group. False means that the group does not belong to a re-drive.
func selectionOf(consumer, group string) (Selection, bool) {
	text, ok := strings.CutPrefix(group, base(consumer))
	if !ok || text != "" && text[0] != '.' {
		return Selection{}, false
	}
	s, err := parseSelection(strings.TrimPrefix(text, "."))
	return s, err == nil
}

// past is what the group of a selection has committed, by partition of the dead-letter topics.
type past struct {
	selection Selection
	committed map[record.Partition]record.Commit
}

// isCutOff reports whether the last run ended, in some partition, without knowing which of its letters have arrived.
func (p past) isCutOff() bool {
	for _, c := range p.committed {
		if strings.HasPrefix(c.Metadata, markerPrefix) {
			return true
		}
	}
	return false
}

// note adds the commit of a partition, if there is one.
func (p past) note(c kafka.Committed) {
	if c.Offset >= 0 {
		p.committed[c.Partition] = record.Commit{Place: c.Place, Metadata: c.Metadata}
	}
}

// passed reports whether a re-drive has handled the letter: it went back, or was refused. No re-drive takes it again.
func passed(pasts []past, f *dlq.Found) bool {
	return slices.ContainsFunc(pasts, func(p past) bool {
		return f.Err == nil && f.Offset < p.committed[f.Partition].Offset && p.selection.drives(f)
	})
}

// groups gives access to the consumer groups of the re-drives of one consumer group.
type groups struct {
	log      *kafka.Scanner
	consumer string
}

// all returns the groups of all selections, by name.
func (g groups) all(ctx context.Context) (map[string]Selection, error) {
	names, err := kafka.Answer(ctx, func() ([]string, error) { return g.log.Groups(ctx, base(g.consumer)) })
	if err != nil {
		return nil, fmt.Errorf("listing the consumer groups of other redrives: %w", err)
	}
	all := map[string]Selection{}
	for _, name := range names {
		if s, ok := selectionOf(g.consumer, name); ok {
			all[name] = s
		}
	}
	return all, nil
}

// pasts returns all partitions of the dead-letter topics, and the commits of the groups of all selections for them.
func (g groups) pasts(ctx context.Context, topics []string) (spans []dlq.Span, pasts []past, err error) {
	if spans, err = dlq.Spans(ctx, g.log, topics); err != nil {
		return nil, nil, err
	}
	all, err := g.all(ctx)
	if err != nil {
		return nil, nil, err
	}
	for group, s := range all {
		p, err := g.past(ctx, group, s, spans)
		if err != nil {
			return nil, nil, err
		}
		pasts = append(pasts, p)
	}
	slices.SortFunc(pasts, func(a, b past) int { return cmp.Compare(a.selection.String(), b.selection.String()) })
	return spans, pasts, nil
}

// past returns the commits of the group of a selection for these partitions.
func (g groups) past(ctx context.Context, group string, s Selection, spans []dlq.Span) (past, error) {
	partitions := make([]record.Partition, len(spans))
	for i, s := range spans {
		partitions[i] = s.Partition
	}
	p := past{s, map[record.Partition]record.Commit{}}
	err := kafka.Patiently(ctx, func() error {
		answers, err := g.log.Committed(ctx, group, partitions)
		for _, c := range answers {
			err = cmp.Or(err, c.Err)
			p.note(c)
		}
		return err
	})
	if err != nil {
		return past{}, fmt.Errorf("reading the committed offsets of the group %s: %w", group, err)
	}
	return p, nil
}

// busy reports whether groups of re-drives have members. Up to own members of the given group do not count.
func (g groups) busy(ctx context.Context, group string, own int) (bool, error) {
	all, err := g.all(ctx)
	for name := range all {
		members, err := kafka.Answer(ctx, func() ([]kafka.Member, error) { return g.log.Members(ctx, name) })
		if err != nil {
			return false, fmt.Errorf("reading the members of the group %s: %w", name, err)
		}
		if len(members) > own || name != group && len(members) > 0 {
			return true, nil
		}
	}
	return false, err
}
