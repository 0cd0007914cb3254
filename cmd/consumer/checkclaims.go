package main

import (
	"context"
	"fmt"
	"strings"

	"waterwheel/sink"
)

// claimSource is where claims are read; *sink.Database is one.
type claimSource interface {
	// Partitions returns the partition documents of a time series.
	Partitions(ctx context.Context, series string) ([]sink.PartitionDocument, error)
}

// claimed is a topic in a time series, and who is to write it. Without a clusterID it is not known which claims are meant.
type claimed struct{ series, clusterID, topic, group string }

// checkClaims looks whose claims stand on a topic's partitions: run stops those of another group.
func checkClaims(ctx context.Context, from claimSource, of claimed, found *findings) {
	subject := "time series " + of.series
	claims, err := from.Partitions(ctx, of.series)
	if err != nil {
		found.failed(subject, err)
		return
	}
	var groups []string // the others, in the order of their first partitions
	partitions := map[string][]string{}
	ours := 0
	for _, d := range claims {
		switch {
		case of.clusterID == "" || d.ClusterID != of.clusterID || d.Topic != of.topic:
			continue
		case d.Group == of.group:
			ours++
			continue
		case partitions[d.Group] == nil:
			groups = append(groups, d.Group)
		}
		partitions[d.Group] = append(partitions[d.Group], fmt.Sprint(d.Partition))
	}
	for _, group := range groups {
		found.wrong(subject, fmt.Sprintf("use another MONGODB_COLLECTION; or stop the group %q for good, then `consumer collection takeover --dry-run`, and without it", group),
			"the group %q writes partitions %s of %s, the settings name the group %q: run would stop them (other_group)",
			group, strings.Join(partitions[group], ", "), of.topic, of.group)
	}
	if ours > 0 {
		found.ok(subject, "%d partitions of %s are claimed by the group %s", ours, of.topic, of.group)
	}
}
