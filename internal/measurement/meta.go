package measurement

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
	"waterwheel/internal/timeseries/rawbson"
)

// maxMetaBytes bounds a meta in its normal form, because it stands in every bucket, in an index, and in every update's filter.
const maxMetaBytes = 8 << 10

// metaOf returns the meta of the event that was walked, in its normal form.
func (d *Decoder) metaOf() (bson.RawValue, *DecodeError) {
	switch d.options.MetaFrom {
	case MetaFromNone:
		return bson.RawValue{}, nil
	case MetaFromKey:
		return d.keyMeta, nil
	}
	if d.paths.joined {
		return d.joinMeta()
	}
	found := &d.foundMeta[0]
	if found.Kind == 0 {
		return bson.RawValue{}, d.missingMeta()
	}
	meta, err := d.normalize(found.Kind, found.Value)
	if err != nil {
		return meta, err.within(d.paths.meta[0].path)
	}
	return meta, nil
}

// joinMeta makes an object of the parts of meta that the event has. The parts are in the order of their names.
func (d *Decoder) joinMeta() (bson.RawValue, *DecodeError) {
	start := len(d.out)
	d.out = append(d.out, 0, 0, 0, 0)
	for i := range d.foundMeta {
		found := &d.foundMeta[i]
		if found.Kind == 0 {
			if err := d.lostPart(&d.paths.meta[i]); err != nil {
				return bson.RawValue{}, err
			}
			continue
		}
		d.out = rawbson.AppendHeader(d.out, found.Kind, d.paths.meta[i].name)
		if err := d.appendNormal(found.Kind, found.Value, 2); err != nil {
			return bson.RawValue{}, err.within(d.paths.meta[i].path)
		}
	}
	d.out = rawbson.EndDocument(d.out, start)
	end := len(d.out)
	if end-start == rawbson.Empty {
		return bson.RawValue{}, d.missingMeta()
	}
	if end-start > maxMetaBytes {
		return bson.RawValue{}, metaTooLarge("meta", end-start)
	}
	return bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: d.out[start:end:end]}, nil
}

// lostPart is the error of a part of meta that the event lacks, if its path cannot lead anywhere in this event. Without the part,
// several series would become one.
func (d *Decoder) lostPart(part *metaPart) *DecodeError {
	if part.source != fromEvent || !strings.Contains(part.path, ".") {
		return nil
	}
	if array := arrayOn(d.event, part.path); array != "" {
		return newError(BadMeta, part.path, "%s: correct %s", array+noWay, settingMetas)
	}
	if advice := d.options.elementAdvice(part.path); advice != "" {
		return newError(BadMeta, part.path, "the event has no such field%s: correct %s", advice, settingMetas)
	}
	return nil
}

func metaTooLarge(what string, size int) *DecodeError {
	return newError(BadMeta, "", "%s has %d bytes, more than %d, and each bucket would store them: "+
		"keep only the fields that identify the series", what, size, maxMetaBytes)
}

// normalize appends the normal form of a meta value and returns it. The fields of all its objects are sorted by the bytes of
// their names.
func (d *Decoder) normalize(kind bson.Type, value []byte) (bson.RawValue, *DecodeError) {
	if kind == bson.TypeTimestamp && bytes.Equal(value, make([]byte, 8)) {
		return bson.RawValue{}, newError(BadMeta, "", "the timestamp (0, 0) cannot name a series: MongoDB replaces it with the current time: send another value")
	}
	if kind == bson.TypeBinary && timeseries.IsSegmentMeta(bson.RawValue{Type: kind, Value: value}) {
		return bson.RawValue{}, newError(BadMeta, "", "the meta begins with bytes that are reserved for segments: send another value")
	}
	start := len(d.out)
	if err := d.appendNormal(kind, value, 1); err != nil {
		return bson.RawValue{}, err
	}
	end := len(d.out)
	if end-start > maxMetaBytes {
		return bson.RawValue{}, metaTooLarge("meta", end-start)
	}
	return bson.RawValue{Type: kind, Value: d.out[start:end:end]}, nil
}

func (d *Decoder) appendNormal(kind bson.Type, value []byte, depth int) (err *DecodeError) {
	if depth > maxDepth {
		return tooDeep("")
	}
	switch kind {
	case bson.TypeRegex, bson.TypeUndefined, bson.TypeDBPointer:
		return newError(BadMeta, "", "a %s cannot name a series: send a string, a number or an object", kind)
	}
	if !rawbson.IsNested(kind) {
		d.out = append(d.out, value...)
		return nil
	}
	start := len(d.out)
	d.out = append(d.out, 0, 0, 0, 0)
	if kind == bson.TypeArray {
		err = d.appendItems(rawbson.Content(value), depth)
	} else {
		err = d.appendSorted(rawbson.Content(value), depth)
	}
	d.out = rawbson.EndDocument(d.out, start)
	return err
}

func (d *Decoder) appendSorted(list []byte, depth int) *DecodeError {
	first, sorted := len(d.fields), true
	for len(list) > 0 {
		var e rawbson.Element
		list = e.Cut(list)
		if err := d.checkName(e.Name); err != nil {
			return err
		}
		sorted = sorted && (len(d.fields) == first || byName(d.fields[len(d.fields)-1], e) < 0)
		d.fields = append(d.fields, e)
	}
	last := len(d.fields)
	if !sorted {
		slices.SortFunc(d.fields[first:], byName)
	}
	for i := first; i < last; i++ {
		e := d.fields[i]
		if !sorted && i > first && bytes.Equal(e.Name, d.fields[i-1].Name) {
			return duplicateField(string(e.Name))
		}
		d.out = rawbson.AppendHeader(d.out, e.Kind, e.Name)
		if err := d.appendNormal(e.Kind, e.Value, depth+1); err != nil {
			return err.within(string(e.Name))
		}
	}
	d.fields = d.fields[:first]
	return nil
}

// byName orders elements by the bytes of their names.
func byName(a, b rawbson.Element) int { return bytes.Compare(a.Name, b.Name) }

func (d *Decoder) appendItems(list []byte, depth int) *DecodeError {
	i := 0
	for e := range rawbson.All(list) {
		d.out = rawbson.AppendIndexHeader(d.out, e.Kind, i)
		if err := d.appendNormal(e.Kind, e.Value, depth+1); err != nil {
			return err.within(strconv.Itoa(i))
		}
		i++
	}
	return nil
}

// NormalMeta returns a meta in its normal form, as a record brings it into a bucket. In this form the fields of all objects are
// sorted by the bytes of their names. An absent meta (Type 0) is a series as well, and is returned as it is. The error is a
// *DecodeError that says why meta cannot name a series, with a path inside of meta. The value must be valid BSON.
func NormalMeta(meta bson.RawValue) (bson.RawValue, error) {
	if meta.Type == 0 {
		return meta, nil
	}
	d := Decoder{dotted: true}
	normal, err := d.normalize(meta.Type, meta.Value)
	if err != nil {
		return bson.RawValue{}, err
	}
	return normal, nil
}
