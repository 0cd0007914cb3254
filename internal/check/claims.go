package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"waterwheel/internal/record"
	"waterwheel/internal/words"
	"waterwheel/sink"
)

// claims checks which groups have claimed a topic's partitions. run stops partitions that another group has claimed. claims also
// records the partition documents. Without Kafka it is unknown which documents apply.
func (l *look) claims(of Topic, documents []sink.PartitionDocument) {
	subject := "time series " + of.Series
	partitions := map[string][]string{} // partitions of other groups
	ours := 0
	for _, d := range documents {
		if l.clusterID == "" || d.ClusterID != l.clusterID || d.Topic != of.Name {
			continue
		}
		l.documents[record.Partition{Topic: d.Topic, Number: d.Partition}] = d.Document
		if d.Group == l.GroupID {
			ours++
		} else {
			partitions[d.Group] = append(partitions[d.Group], fmt.Sprint(d.Partition))
		}
	}
	for _, group := range slices.Sorted(maps.Keys(partitions)) {
		l.Wrong(subject, fmt.Sprintf("use another MONGODB_COLLECTION; or stop the consumers of the group %q permanently, then run `waterwheel collection takeover --dry-run`, and again without --dry-run", group),
			"the group %q writes partitions %s of %s, but the settings name the group %q: run would stop these partitions (other_group)",
			group, strings.Join(partitions[group], ", "), of.Name, l.GroupID)
	}
	if ours > 0 {
		l.OK(subject, "%s of %s %s claimed by the group %s", words.Count(ours, "partition"), of.Name, words.Form(ours, "is", "are"), l.GroupID)
	}
}
