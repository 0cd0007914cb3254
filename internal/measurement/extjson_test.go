package measurement

import (
	"bytes"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

var extOptions = Options{Format: ExtJSON, MetaFrom: MetaFromNone}

// TestExtendedJSONAgreesWithDriver checks that values decode as in the driver.
func TestExtendedJSONAgreesWithDriver(t *testing.T) {
	d := newDecoder(t, extOptions)
	for _, value := range []string{
		`{"$numberInt": "-5"}`, `{"$numberInt": "2147483647"}`, `{"$numberInt": "-0"}`, `{"$numberLong": "+007"}`,
		`{"$numberLong": "9223372036854775807"}`, `{"$numberLong": "-9223372036854775808"}`, `{"$numberLong": "5"}`,
		`{"$numberDouble": "1.5"}`, `{"$numberDouble": "-0.0"}`, `{"$numberDouble": "1e300"}`, `{"$numberDouble": "0.1"}`, `{"$numberDouble": "3"}`, `{"$numberDouble": "Infinity"}`,
		`{"$numberDouble": "-Infinity"}`,
		`{"$numberDecimal": "1.50"}`, `{"$numberDecimal": "-1E+6144"}`, `{"$numberDecimal": "NaN"}`, `{"$numberDecimal": "0E-6176"}`,
		`{"$oid": "0123456789abcdefABCDEF01"}`,
		`{"$uuid": "c8edabc3-f738-4ca3-b68d-ab92a91478a3"}`,
		`{"$binary": {"base64": "AQID", "subType": "00"}}`, `{"$binary": {"subType": "80", "base64": ""}}`,
		`{"$binary": {"base64": "/+8=", "subType": "02"}}`, `{"$binary": {"base64": "AQID", "subType": "5"}}`,
		`{"$binary": "AQID", "$type": "00"}`,
		`{"$date": "2023-11-14T22:13:20.123Z"}`, `{"$date": "2023-11-14T22:13:20+01:00"}`, `{"$date": {"$numberLong": "-1"}}`,
		`{"$timestamp": {"t": 4294967295, "i": 1}}`, `{"$timestamp": {"i": 2147483648, "t": 0}}`,
		`{"$regularExpression": {"pattern": "^a\\.b", "options": "xi"}}`, `{"$regularExpression": {"options": "", "pattern": ""}}`,
		`{"$symbol": "s"}`, `{"$code": "f()"}`, `{"$code": "f()", "$scope": {"x": {"$numberLong": "1"}}}`,
		`{"$dbPointer": {"$ref": "db.c", "$id": {"$oid": "0123456789abcdef01234567"}}}`,
		`{"$minKey": 1}`, `{"$maxKey": 1}`, `{"$undefined": true}`,
		`{"a": [{"$numberLong": "1"}, {"b": {"$date": {"$numberLong": "0"}}}], "c": {"$oid": "0123456789abcdef01234567"}}`,
	} {
		event := []byte(`{"v":` + value + `}`)
		var want bson.Raw
		if err := bson.UnmarshalExtJSON(event, false, &want); err != nil {
			t.Errorf("%s: the driver says %v", value, err)
			continue
		}
		got := document(t, decodeOne(t, d, recordOf(string(event))).Elements)
		if !bytes.Equal(got, want) {
			t.Errorf("%s:\ngot  %x\nwant %x", value, []byte(got), []byte(want))
		}
	}
}

func TestExtendedJSONNaN(t *testing.T) {
	m := decodeOne(t, newDecoder(t, extOptions), recordOf(`{"v": {"$numberDouble": "NaN"}}`))
	want := []byte{0x01, 'v', 0, 0, 0, 0, 0, 0, 0, 0xF8, 0x7F}
	if !bytes.Equal(m.Elements, want) {
		t.Errorf("%x, want %x", m.Elements, want)
	}
}

func TestMalformedExtendedJSON(t *testing.T) {
	tests := map[Reason][]string{
		BadNumber: {
			`{"$numberInt": 5}`, `{"$numberInt": ""}`, `{"$numberInt": "1.0"}`, `{"$numberInt": "-2147483649"}`,
			`{"$numberLong": "9223372036854775808"}`, `{"$numberLong": " 1"}`, `{"$numberLong": {"$numberLong": "1"}}`,
			`{"$numberDouble": "0x1p4"}`, `{"$numberDouble": "1_0"}`, `{"$numberDouble": "inf"}`, `{"$numberDouble": "."}`, `{"$numberDouble": "-."}`, `{"$numberDouble": "1e999"}`,
			`{"$numberDecimal": "1e9999"}`, `{"$numberDecimal": "x"}`, `{"$numberDecimal": "` + strings.Repeat("0", 1000) + `"}`,
		},
		BadTime: {`{"$date": "2023"}`, `{"$date": 1.5}`, `{"$date": null}`, `{"$date": {"x": 1}}`},
		NotJSON: {
			`{"$oid": "0123456789abcdef0123456"}`, `{"$oid": "0123456789abcdef0123456g"}`, `{"$oid": 5}`,
			`{"$uuid": "c8edabc3f7384ca3b68dab92a91478a3"}`, `{"$uuid": "c8edabc3-f738-4ca3-b68d-ab92a914-8a3"}`, `{"$uuid": 1}`,
			`{"$binary": {"base64": "A", "subType": "00"}}`, `{"$binary": {"base64": "", "subType": "100"}}`,
			`{"$binary": {"base64": ""}}`, `{"$binary": "AQID"}`, `{"$binary": {"base64": 1, "subType": "00"}}`,
			`{"$timestamp": {"t": -1, "i": 1}}`, `{"$timestamp": {"t": 1.5, "i": 1}}`, `{"$timestamp": {"t": 1, "i": 1, "j": 1}}`,
			`{"$timestamp": {"t": 4294967296, "i": 1}}`,
			`{"$regularExpression": {"pattern": "a\u0000", "options": ""}}`, `{"$regularExpression": {"pattern": "a", "options": "é"}}`,
			`{"$regularExpression": {"pattern": 1, "options": ""}}`,
			`{"$dbPointer": {"$ref": "n", "$id": "x"}}`, `{"$symbol": 1}`, `{"$code": 1}`, `{"$code": "", "$scope": 1}`,
			`{"$minKey": 2}`, `{"$maxKey": "1"}`, `{"$undefined": false}`,
		},
		BadFieldName: {`{"$ref": "c", "$id": 1}`, `{"$numberLong": "1", "x": 1}`, `{"$oid": "", "a": 1, "b": 2}`, `{"a": 1, "$numberInt": "1"}`, `{"$regex": "^a", "$options": "i"}`, `{"$bin": "AQID", "ary$type": "00"}`, `{"$co": "x", "de$scope": {}}`},
	}
	d := newDecoder(t, extOptions)
	for reason, values := range tests {
		for _, value := range values {
			if err := refusal(t, d, recordOf(`{"v": [`+value+`]}`)); err.Reason != reason || !strings.HasPrefix(err.Path, "v.0") {
				t.Errorf("%s: %v, want %s at v.0", value, err, reason)
			}
		}
	}
}

func TestPlainJSONIsNotExtended(t *testing.T) {
	err := refusal(t, newDecoder(t, Options{MetaFrom: MetaFromNone}), recordOf(`{"v": {"$numberLong": "1"}}`))
	if err.Reason != BadFieldName || !strings.Contains(err.Detail, "EVENT_FORMAT=extjson") {
		t.Error(err)
	}
}
