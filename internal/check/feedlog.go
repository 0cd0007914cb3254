package check

import (
	"bytes"
	"encoding/json"

	"waterwheel/internal/record"
)

// loggedRecord is a record with its partition.
type loggedRecord struct {
	record.Record
	partition int32
}

// asLogged parses values as records printed by kcat -J: with key, payload, partition, timestamp and headers. False means that a
// value is something else.
func asLogged(values [][]byte) (list []loggedRecord, ok bool) {
	for i, value := range values {
		var line struct {
			Topic     *string
			Partition *int32
			Offset    *int64
			TS        int64
			Headers   []*string
			Key       *string
			Payload   *string
		}
		line.TS = -1
		if !bytes.Contains(value, []byte(`"payload"`)) || json.Unmarshal(value, &line) != nil || line.Topic == nil || line.Partition == nil || line.Offset == nil {
			return nil, false
		}
		r := record.Record{Offset: int64(i), Timestamp: line.TS, Key: bytesOf(line.Key), Value: bytesOf(line.Payload), Headers: encodeHeaders(line.Headers)}
		list = append(list, loggedRecord{r, *line.Partition})
	}
	return list, len(list) > 0
}

func bytesOf(text *string) []byte {
	if text == nil {
		return nil
	}
	return []byte(*text)
}

// encodeHeaders encodes headers as Kafka does. list has names and values in turn.
func encodeHeaders(list []*string) []byte {
	var headers []record.Header
	for i := 0; i+1 < len(list); i += 2 {
		headers = append(headers, record.Header{Key: string(bytesOf(list[i])), Value: bytesOf(list[i+1])})
	}
	return record.EncodeHeaders(headers)
}
