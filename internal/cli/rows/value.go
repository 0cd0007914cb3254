package rows

import (
	"encoding/base64"
	"encoding/hex"
	"math"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// timeLayout has milliseconds, like the time of a measurement, and the offset from UTC.
const timeLayout = "2006-01-02T15:04:05.000Z07:00"

// Time formats a time with milliseconds.
func Time(t time.Time, where *time.Location) string {
	if where == nil {
		where = time.UTC
	}
	return t.In(where).Format(timeLayout)
}

// Text formats a value for a table or CSV: text as it is, numbers in full, times like those of measurements, bytes in base64, and
// anything else in relaxed Extended JSON.
func Text(v bson.RawValue, where *time.Location) string {
	switch v.Type {
	case bson.TypeString:
		return v.StringValue()
	case bson.TypeInt32, bson.TypeInt64:
		return strconv.FormatInt(v.AsInt64(), 10)
	case bson.TypeDouble:
		return float(v.Double())
	case bson.TypeDecimal128:
		return v.Decimal128().String()
	case bson.TypeBoolean:
		return strconv.FormatBool(v.Boolean())
	case bson.TypeNull:
		return "null"
	case bson.TypeDateTime:
		return Time(v.Time(), where)
	case bson.TypeObjectID:
		return v.ObjectID().Hex()
	case bson.TypeBinary:
		return binary(v)
	}
	return extended(v)
}

// float formats a number without loss, as decimals unless it is very large or very small.
func float(f float64) string {
	if size := math.Abs(f); size != 0 && (size < 1e-6 || size >= 1e21) {
		return strconv.FormatFloat(f, 'g', -1, 64)
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

func binary(v bson.RawValue) string {
	subtype, data := v.Binary()
	if subtype == bson.TypeBinaryUUID && len(data) == 16 {
		s := hex.EncodeToString(data)
		return strings.Join([]string{s[:8], s[8:12], s[12:16], s[16:20], s[20:]}, "-")
	}
	return base64.StdEncoding.EncodeToString(data)
}

// extended returns the value in relaxed Extended JSON.
func extended(v bson.RawValue) string {
	const begin, end = `{"v":`, `}`
	text, err := bson.MarshalExtJSON(bson.D{{Key: "v", Value: v}}, false, false)
	if err != nil {
		return v.String()
	}
	return strings.TrimSuffix(strings.TrimPrefix(string(text), begin), end)
}

// number returns the value as a number.
func number(v bson.RawValue) (float64, bool) {
	switch v.Type {
	case bson.TypeInt32, bson.TypeInt64:
		return float64(v.AsInt64()), true
	case bson.TypeDouble:
		return v.Double(), true
	case bson.TypeDecimal128:
		f, err := strconv.ParseFloat(v.Decimal128().String(), 64)
		return f, err == nil
	}
	return 0, false
}
