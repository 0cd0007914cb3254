package check

import (
	"bytes"
	"context"
	"encoding/base64"
	"slices"
	"strconv"
)

// wholeRecord is the part of a letter about a whole record.
const wholeRecord = -1

// deadLetter is the expected letter for a bad record or a bad element of a record.
type deadLetter struct {
	reason string
	value  []byte
}

// readDeadLetters compares the dead-letter topic with the bad records.
func (j *judgement) readDeadLetters(ctx context.Context) error {
	topic, ok, err := j.source.Kafka.Topic(ctx, j.source.Topic+".dlq")
	if err != nil {
		return err
	}
	seen := map[Place]bool{}
	if ok {
		records, err := j.source.Kafka.Read(ctx, topic)
		if err != nil {
			return err
		}
		for _, r := range records {
			j.judgeDeadLetter(r, seen)
		}
	}
	for at, expected := range j.deadLetters {
		if !seen[at] {
			j.report.fault("no letter for %v (%s)", at, expected.reason)
		}
	}
	return nil
}

// judgeDeadLetter compares one letter with the record it is about.
func (j *judgement) judgeDeadLetter(r Record, seen map[Place]bool) {
	at, ok := j.placeOf(r)
	if !ok {
		j.report.fault("letter %d: its headers name no position of the topic: %v", r.Offset, r.Headers)
		return
	}
	expected, ok := j.deadLetters[at]
	if !ok {
		j.report.fault("letter %d: %v is no bad record (%s: %s)",
			r.Offset, at, r.Headers["waterwheel.reason"], r.Headers["__connect.errors.exception.message"])
		return
	}
	if seen[at] {
		j.report.Repeated++
		return
	}
	seen[at] = true
	j.report.DeadLetters[r.Headers["waterwheel.reason"]]++
	source := j.records[Place{at.Partition, Position{Offset: at.Offset}}]
	for _, f := range deadLetterFaults(r, expected, source, j.source.Group) {
		j.report.fault("letter %d (%v): %s", r.Offset, at, f)
	}
}

// placeOf reads from a letter's headers which record the letter is about.
func (j *judgement) placeOf(r Record) (Place, bool) {
	id := base64.RawURLEncoding.EncodeToString(j.topic.ID[:]) // as Kafka's tools print it
	if r.Headers["__connect.errors.topic"] != j.topic.Name || r.Headers["waterwheel.topic.id"] != id {
		return Place{}, false
	}
	partition, badPartition := strconv.ParseInt(r.Headers["__connect.errors.partition"], 10, 32)
	offset, badOffset := strconv.ParseInt(r.Headers["__connect.errors.offset"], 10, 64)
	part, badPart := wholeRecord, error(nil)
	if text, ok := r.Headers["waterwheel.part"]; ok {
		part, badPart = strconv.Atoi(text)
	}
	return Place{int32(partition), Position{offset, part}}, badPartition == nil && badOffset == nil && badPart == nil
}

// deadLetterFaults compares a letter's content and headers with the record.
func deadLetterFaults(r Record, expected deadLetter, source Record, group string) []string {
	var faults []string
	stage := "VALUE_CONVERTER"
	if expected.reason == "refused_by_database" {
		stage = "TASK_PUT"
	}
	headers := map[string]string{
		"waterwheel.reason":                     expected.reason,
		"__connect.errors.exception.class.name": expected.reason,
		"__connect.errors.stage":                stage,
		"__connect.errors.connector.name":       group,
		"waterwheel.attempt":                    "1",
		"waterwheel.timestamp":                  strconv.FormatInt(source.Timestamp, 10),
	}
	for name, want := range source.Headers {
		headers[name] = want
	}
	for name, want := range headers {
		if got := r.Headers[name]; got != want {
			faults = append(faults, "header "+name+" is "+strconv.Quote(got)+", want "+strconv.Quote(want))
		}
	}
	if message := r.Headers["__connect.errors.exception.message"]; len(message) < 10 {
		faults = append(faults, "its message is "+strconv.Quote(message))
	}
	if !bytes.Equal(r.Key, source.Key) || (r.Key == nil) != (source.Key == nil) {
		faults = append(faults, "its key is not the record's")
	}
	_, cut := r.Headers["waterwheel.cut"] // a value that is too long for the topic is cut
	if !bytes.Equal(r.Value, expected.value) && !(cut && bytes.HasPrefix(expected.value, r.Value)) {
		faults = append(faults, "its value is not the record's")
	}
	slices.Sort(faults)
	return faults
}
