package measurement

import "go.mongodb.org/mongo-driver/v2/bson"

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
