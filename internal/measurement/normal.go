package measurement

import "go.mongodb.org/mongo-driver/v2/bson"

// NormalMeta returns a meta as a record would bring it into a bucket: the fields of all its objects sorted by their names'
// bytes. Without it (Type 0) it is returned as it is: that is a series as well. The error says why it cannot name a series;
// it is a *DecodeError with a path inside of meta. The value must be valid BSON.
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
