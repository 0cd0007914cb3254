package recordbatch

import (
	"bytes"
	"testing"

	"waterwheel/internal/record"
)

// TestRecordsAreReadAsJavaReadsThem checks that any negative length means null, that numbers are cut to 32 bits, and that a
// record ends with its headers. A record that Java reads and this package does not would stop its partition.
func TestRecordsAreReadAsJavaReadsThem(t *testing.T) {
	const null, nullToo, zero, one = 1, 3, 0, 2 // in zigzag encoding these are -1, -2, 0 and 1
	tests := map[string]struct {
		body       []byte
		key, value []byte
		headers    []record.Header
	}{
		"a key of length -2":          {[]byte{0, 0, 0, nullToo, one, 'v', zero}, nil, []byte("v"), nil},
		"a value of length -2":        {[]byte{0, 0, 0, one, 'k', nullToo, zero}, []byte("k"), nil, nil},
		"a header's value of -2":      {[]byte{0, 0, 0, null, null, one, one, 'h', nullToo}, nil, nil, []record.Header{{Key: "h", Value: nil}}},
		"the most negative length":    {[]byte{0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f, one, 'v', zero}, nil, []byte("v"), nil},
		"a length of 2^32, cut to 0":  {[]byte{0, 0, 0, 0x80, 0x80, 0x80, 0x80, 0x20, one, 'v', zero}, []byte{}, []byte("v"), nil},
		"a zero of five bytes":        {[]byte{0, 0, 0, null, one, 'v', 0x80, 0x80, 0x80, 0x80, 0}, nil, []byte("v"), nil},
		"an attribute":                {[]byte{0xff, 0, 0, null, one, 'v', zero}, nil, []byte("v"), nil},
		"a header with an empty name": {[]byte{0, 0, 0, null, null, one, zero, zero}, nil, nil, []record.Header{{Key: "", Value: []byte{}}}},
	}
	for name, test := range tests {
		var r record.Record
		if !parseRecord(&r, test.body) {
			t.Errorf("%s: not read", name)
			continue
		}
		headers, err := ParseHeaders(r.Headers)
		same := bytes.Equal(r.Key, test.key) && bytes.Equal(r.Value, test.value) &&
			(r.Key == nil) == (test.key == nil) && (r.Value == nil) == (test.value == nil)
		if err != nil || !same || len(headers) != len(test.headers) {
			t.Errorf("%s: key %v, value %v, headers %v, %v", name, r.Key, r.Value, headers, err)
		}
		for i, h := range headers {
			if h.Key != test.headers[i].Key || (h.Value == nil) != (test.headers[i].Value == nil) {
				t.Errorf("%s: header %+v", name, h)
			}
		}
	}
	for name, body := range map[string][]byte{
		"nothing":                     nil,
		"a length of six bytes":       {0, 0, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 0, one, 'v', zero},
		"a key longer than there is":  {0, 0, 0, 100, 'k', null, zero},
		"headers of a negative count": {0, 0, 0, null, null, null},
		"more headers than there are": {0, 0, 0, null, null, 100, zero, zero},
		"a header without a name":     {0, 0, 0, null, null, one, nullToo, zero},
		"bytes after the headers":     {0, 0, 0, null, null, one, zero, zero, 7},
		"bytes after no headers":      {0, 0, 0, null, null, zero, 7},
		"no headers at all":           {0, 0, 0, null, null},
	} {
		if r := (record.Record{}); parseRecord(&r, body) {
			t.Errorf("%s: read as %+v", name, r)
		}
	}
}
