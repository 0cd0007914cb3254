package check

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// keptValues bounds how many distinct values of one field are kept.
const keptValues = 512

// distinct counts distinct values, and how often each of them occurs, in bounded memory. It keeps the values whose hashes end in
// at least bits zero bits. Whenever there are too many, it increases bits. A kept value was kept from its first occurrence on, so
// its count is exact. The kept values are a fair sample of all, whether they are rare or frequent.
type distinct struct {
	most int
	bits int
	kept map[uint64]occurrence
	seen int // number of occurrences of all values
}

// occurrence describes one value.
type occurrence struct {
	count int
	with  uint64 // hash of what first came with the value
	mixed bool   // it came with something else as well
}

func newDistinct(most int) *distinct { return &distinct{most: most, kept: map[uint64]occurrence{}} }

// add counts a value. with is the hash of what it comes with.
func (d *distinct) add(hash, with uint64) {
	d.seen++
	if bits.TrailingZeros64(hash) < d.bits {
		return
	}
	o, known := d.kept[hash]
	if !known {
		o.with = with
	}
	o.count++
	o.mixed = o.mixed || o.with != with
	d.kept[hash] = o
	for len(d.kept) > d.most {
		d.bits++
		maps.DeleteFunc(d.kept, func(hash uint64, _ occurrence) bool { return bits.TrailingZeros64(hash) < d.bits })
	}
}

// values returns the number of distinct values. It is an estimate once there are more than are kept.
func (d *distinct) values() int { return len(d.kept) << d.bits }

// returning returns the share of occurrences whose value occurred more than once.
func (d *distinct) returning() float64 {
	all, again := 0, 0
	for _, o := range d.kept {
		all += o.count
		if o.count > 1 {
			again += o.count
		}
	}
	return share(again, all)
}

// mixing returns the share of repeated values that came with different things. tested reports that there were repeated values.
func (d *distinct) mixing() (mixed float64, tested bool) {
	again, several := 0, 0
	for _, o := range d.kept {
		if o.count > 1 {
			again++
		}
		if o.mixed {
			several++
		}
	}
	return share(several, again), again > 0
}

// share returns part of whole as a fraction. It is 0 if whole is 0.
func share(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// hashOf returns the hash of some bytes. It is the same in each run, so that a sample always gets the same judgement.
func hashOf(parts ...[]byte) uint64 {
	h := fnv.New64a()
	for _, part := range parts {
		_, _ = h.Write(part) // never fails
	}
	x := h.Sum64()
	for range 2 { // FNV's low bits are weak
		x ^= x >> 33
		x *= 0xff51afd7ed558ccd
	}
	return x ^ x>>33
}

// namedFields is how many fields are named.
const namedFields = 3

// Field is the number of distinct values of a field of meta.
type Field struct {
	// Path is dotted. It is empty for a meta that is not an object.
	Path   string `json:"path"`
	Values int    `json:"values"`
	// Seen counts the measurements that have the field.
	Seen int `json:"seen"`
}

// Name returns the field's name for people.
func (f Field) Name() string {
	if f.Path == "" {
		return "meta"
	}
	return "meta." + f.Path
}

// valuesCounted is the number of values of a field of meta up to which the count is exact.
const valuesCounted = 1 << 13

// variety counts distinct metas with their partitions, and distinct values of their fields.
type variety struct {
	metas *distinct
	paths map[string]*distinct
}

func newVariety() *variety {
	return &variety{metas: newDistinct(seriesCounted), paths: map[string]*distinct{}}
}

// add counts one meta. Type 0 means absent.
func (v *variety) add(meta bson.RawValue, partition int32) {
	v.metas.add(hashMeta(meta), uint64(partition))
	if meta.Type != 0 {
		v.walk("", meta)
	}
}

// has reports whether some meta had a field of this name.
func (v *variety) has(name string) bool {
	for path := range v.paths {
		if path == name || strings.HasPrefix(path, name+".") {
			return true
		}
	}
	return false
}

// series returns the number of distinct metas.
func (v *variety) series() int { return v.metas.values() }

// spread returns how many metas came in several partitions.
func (v *variety) spread() (n int) {
	for _, o := range v.metas.kept {
		if o.mixed {
			n++
		}
	}
	return n << v.metas.bits
}

func (v *variety) walk(path string, value bson.RawValue) {
	isArray := value.Type == bson.TypeArray
	if isArray || value.Type == bson.TypeEmbeddedDocument {
		elements, err := bson.Raw(value.Value).Elements()
		for i, e := range elements {
			name := e.Key()
			if isArray {
				name = strconv.Itoa(i)
			}
			if path != "" {
				name = path + "." + name
			}
			v.walk(name, e.Value())
		}
		if err == nil && len(elements) > 0 {
			return
		}
	}
	one := v.paths[path]
	if one == nil {
		if len(v.paths) == mostPaths {
			return
		}
		one = newDistinct(valuesCounted)
		v.paths[path] = one
	}
	one.add(hashMeta(value), 0)
}

// fields returns the most varied fields, the most varied first.
func (v *variety) fields(most int) []Field {
	var list []Field
	for _, path := range slices.Sorted(maps.Keys(v.paths)) {
		list = append(list, Field{Path: path, Values: v.paths[path].values(), Seen: v.paths[path].seen})
	}
	slices.SortStableFunc(list, func(a, b Field) int { return cmp.Compare(b.Values, a.Values) })
	return list[:min(len(list), most)]
}

// MostVaried names the fields with the most distinct values among these metas, with their numbers: "session 4998, host 12 (of
// 5000 series)".
func MostVaried(metas []bson.RawValue) string {
	v := newVariety()
	for _, meta := range metas {
		v.add(meta, 0)
	}
	var named []string
	for _, f := range v.fields(namedFields) {
		named = append(named, fmt.Sprintf("%s %d", cmp.Or(f.Path, "meta itself"), f.Values))
	}
	if named == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s (of %d series)", strings.Join(named, ", "), len(metas))
}
