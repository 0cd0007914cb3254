package bucketer

import (
	"cmp"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

// maxKeptOut bounds the series that are kept out of segments.
const maxKeptOut = 10_000

// keptOut are the keys of series that are kept out of segments, because MongoDB has refused a bucket of theirs. An index or a
// validator on the meta refuses a bucket, but accepts the same measurements in a segment, whose meta belongs to no series.
type keptOut struct {
	keys map[string]struct{}
	text int64 // bytes of the keys
}

// bytes is the memory of the keys and their map.
func (k *keptOut) bytes() int64 {
	if k.keys == nil {
		return 0
	}
	return k.text + mapBytes(len(k.keys), knownSlot)
}

// KeepOut keeps a series out of segments until MongoDB accepts a bucket of it. Its measurements are written into buckets at
// once, so refused ones become dead letters. A meta of type 0 means the series without a meta. KeepOut does nothing beyond
// maxKeptOut series.
func (c *Catalog) KeepOut(meta bson.RawValue) {
	k := &c.keptOut
	key := appendKey(nil, meta)
	if _, known := k.keys[string(key)]; known || len(k.keys) == maxKeptOut {
		return
	}
	if k.keys == nil {
		k.keys = map[string]struct{}{}
	}
	k.keys[string(key)] = struct{}{}
	k.text += classBytes(len(key))
}

// has reports whether a series is kept out of segments.
func (k *keptOut) has(key string) bool {
	_, out := k.keys[key]
	return out
}

// accept lets a series into segments again after MongoDB has accepted a bucket of it.
func (k *keptOut) accept(key string) {
	if !k.has(key) {
		return
	}
	k.text -= classBytes(len(key))
	if delete(k.keys, key); len(k.keys) == 0 {
		*k = keptOut{}
	}
}

// HoldsSeries reports whether a segment has measurements of one of these series. A meta of type 0 means the series without a
// meta.
func HoldsSeries(o timeseries.Options, segment bson.Raw, metas []bson.RawValue) (bool, error) {
	u := timeseries.NewUnpacker(o)
	if err := u.Reset(segment); err != nil {
		return false, err
	}
	for m := (timeseries.Unpacked{}); u.Next(&m); {
		if slices.ContainsFunc(metas, m.Meta.Equal) {
			return true, nil
		}
	}
	return false, cmp.Or(u.Err(), u.Mismatch())
}

// appendKey appends the key of a series: the type and the value of its meta. The series without a meta has an empty key.
func appendKey(dst []byte, meta bson.RawValue) []byte {
	if meta.Type == 0 {
		return dst
	}
	return append(append(dst, byte(meta.Type)), meta.Value...)
}
