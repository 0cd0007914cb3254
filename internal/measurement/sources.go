package measurement

import (
	"errors"
	"strings"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries/rawbson"
)

// source says where a path of time or meta begins.
type source uint8

const (
	fromEvent  source = iota
	fromKey           // "key:" is the record's key, "key:device" a member of a key that is a JSON object
	fromHeader        // "header:topic" is the record's last header with that name
)

const (
	keyPrefix    = "key:"
	headerPrefix = "header:"
)

// splitSource returns where a path begins, and the rest of the path.
func splitSource(path string) (source, string) {
	if rest, ok := strings.CutPrefix(path, keyPrefix); ok {
		return fromKey, rest
	}
	if rest, ok := strings.CutPrefix(path, headerPrefix); ok {
		return fromHeader, rest
	}
	return fromEvent, path
}

// isOfRecord reports whether a path leads to the record's key or headers, and not into the event.
func isOfRecord(path string) bool {
	s, _ := splitSource(path)
	return s != fromEvent
}

// checkSource returns why a path to the record's key or headers leads nowhere.
func checkSource(path string) error {
	switch s, rest := splitSource(path); {
	case s == fromHeader && rest == "":
		return errors.New("names no header: write header:name")
	case s == fromKey:
		return CheckPath(rest)
	}
	return nil
}

// readSources reads the values to which paths lead in the record itself, before its events are read.
func (d *Decoder) readSources() *DecodeError {
	clear(d.recordMeta)
	for i, part := range d.paths.meta {
		if part.source == fromEvent {
			continue
		}
		e, err := d.readSource(part.source, part.inRecord)
		if err == nil && e.Kind != 0 {
			d.fields = d.fields[:0]
			var meta bson.RawValue
			meta, err = d.normalize(e.Kind, e.Value)
			d.recordMeta[i] = rawbson.Element{Kind: meta.Type, Value: meta.Value}
		}
		if err != nil {
			err.Path = part.path
			return err
		}
	}
	d.recordTime, d.recordRank = rawbson.Element{}, 0
	for rank, path := range d.paths.times {
		if s, name := splitSource(path); s == fromHeader && d.recordTime.Kind == 0 {
			e, err := d.readSource(s, name)
			if err != nil {
				return err.within(path)
			}
			d.recordTime, d.recordRank = e, rank
		}
	}
	d.recordTime.Value = append([]byte(nil), d.recordTime.Value...)
	return nil
}

// readSource returns a value of the record. Kind 0 means that the record lacks it. The value is valid until the next one is read.
func (d *Decoder) readSource(s source, name string) (e rawbson.Element, err *DecodeError) {
	if s == fromHeader {
		value := lastHeader(d.record.Headers, name)
		if value == nil {
			return e, nil
		}
		return d.textKey(value)
	}
	if d.record.Key == nil {
		return e, nil
	}
	if e, err = d.parseKey(d.record.Key); err != nil || name == "" {
		return e, err
	}
	if e.Kind != bson.TypeEmbeddedDocument {
		return e, newError(BadMeta, "", "the record's key %s is not an object (in JSON or by a schema), but a path leads into it: send an object, or take the whole key with the path key:", quoteValue(e.Kind, e.Value))
	}
	e, _ = lookUp(e.Value, strings.Split(name, "."))
	return e, nil
}

// lastHeader returns the value of the last header of a name, or nil if there is none. The headers are encoded as in Kafka.
func lastHeader(raw []byte, name string) (value []byte) {
	count, rest, ok := cutVarint(raw)
	for ; ok && count > 0; count-- {
		var key, of []byte
		if key, rest, ok = cutBytes(rest); !ok {
			break
		}
		if of, rest, ok = cutBytes(rest); ok && string(key) == name {
			value = of
		}
	}
	return value
}

// cutBytes cuts bytes off, which follow their length. It returns nil if the length is negative.
func cutBytes(raw []byte) (value, rest []byte, ok bool) {
	n, rest, ok := cutVarint(raw)
	if !ok || n > int64(len(rest)) {
		return nil, nil, false
	}
	if n < 0 {
		return nil, rest, true
	}
	return rest[:n:n], rest[n:], true
}

// cutVarint cuts a number off, encoded as in Kafka's records, that is, as zigzag with seven bits per byte.
func cutVarint(raw []byte) (n int64, rest []byte, ok bool) {
	var bits uint64
	for i, c := range raw {
		if i == 10 {
			break
		}
		bits |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			return int64(bits>>1) ^ -int64(bits&1), raw[i+1:], true
		}
	}
	return 0, nil, false
}

// sourceName returns the name that a part of meta gets from a path to the record's key or headers.
func sourceName(path string) string {
	switch s, rest := splitSource(path); {
	case s == fromHeader:
		return rest
	case rest == "":
		return "key"
	default:
		return rest[strings.LastIndexByte(rest, '.')+1:]
	}
}

// validName reports whether a stored measurement can have a field of this name.
func validName(name string) bool {
	return name != "" && name[0] != '$' && !strings.ContainsAny(name, ".\x00") && utf8.ValidString(name)
}
