package check

import (
	"encoding/base64"
	"fmt"
	"math/big"
	"regexp"
	"strings"
)

var (
	numeralPattern = regexp.MustCompile(`^[+-]?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$|^[+-]?\.\d+$|^[+-]?\d+\.$|^(NaN|[+-]Inf(inity)?)$`)
	commaNumber    = regexp.MustCompile(`^[+-]?(\d+|\d{1,3}(\.\d{3})+),\d+$|^[+-]?\d{1,3}(,\d{3})+(\.\d+)?$`)
	unitNumber     = regexp.MustCompile(`^[+-]?\d+([.,]\d+)? ?(°C|°F|C|F|K|%|V|A|W|kW|kWh|Wh|Hz|Pa|hPa|kPa|bar|mbar|ppm|ppb|m|mm|cm|km|l|L|m3|m³|lx|dB|dBm|s|ms|rpm|kg|g)$`)
	finePattern    = regexp.MustCompile(`[.,]\d{3}\d*[1-9]\d*`)
)

// longestNumber is the maximum length of a text that is a number or a time.
const longestNumber = 40

// inText counts what a text of a field looks like.
func (f *field) inText(text string) {
	if holdsJSON(text) {
		f.documents++
	}
	if text == "" || len(text) > longestNumber || !strings.ContainsAny(text, "0123456789NI=") {
		return
	}
	switch {
	case numeralPattern.MatchString(text):
		f.numerals++
		if strings.ContainsAny(text, ".eENI") {
			f.pointed++
		}
	case commaNumber.MatchString(text):
		f.commas++
	case unitNumber.MatchString(text):
		f.units++
	case len(text) <= 24 && len(text)%4 == 0 && strings.HasSuffix(text, "=") && isBase64(text):
		f.encoded++
	}
	if isFine(text) {
		f.fine++
	}
}

// inNumbers returns how many texts of a field are numbers.
func (f *field) inNumbers() int { return f.numerals + f.commas + f.units }

// isFine reports whether a time has digits below the millisecond, as a text or as a number of micro- or nanoseconds.
func isFine(text string) bool {
	if digits := strings.TrimLeft(text, "0123456789"); digits == "" {
		return len(text) == 16 && !strings.HasSuffix(text, "000") || len(text) == 19 && !strings.HasSuffix(text, "000000")
	}
	return len(text) > 20 && strings.Contains(text, ":") && finePattern.MatchString(text)
}

func isBase64(text string) bool {
	_, err := base64.StdEncoding.DecodeString(text)
	return err == nil
}

// decimal is a field that is a decimal according to the schema in its own record. It comes as the bytes of its digits.
type decimal struct {
	scale    int
	variable bool // an object of scale and value
}

// schemasRead bounds how many schemas of one sample are read. Most records have the same schema.
const schemasRead = 200

// addSchema reads the schema that Kafka Connect's converter writes into each record.
func (e *evidence) addSchema(value any) {
	schema, ok := value.(object)
	if !ok || e.schemas == schemasRead {
		return
	}
	e.schemas++
	e.schemaOf(schema, "payload", 1)
}

func (e *evidence) schemaOf(schema object, path string, depth int) {
	list, _ := schema["fields"].([]any)
	for _, one := range list {
		of, ok := one.(object)
		if !ok || depth > deepest {
			continue
		}
		name, _ := of["field"].(string)
		below := path + "." + name
		switch logical, _ := of["name"].(string); {
		case strings.HasSuffix(logical, "connect.data.Decimal"):
			scale := 0
			if parameters, ok := of["parameters"].(object); ok {
				_, _ = fmt.Sscan(fmt.Sprint(parameters["scale"]), &scale) // 0 if there is none
			}
			e.decimals[below] = decimal{scale: scale}
		case strings.HasSuffix(logical, "VariableScaleDecimal"):
			e.decimals[below] = decimal{variable: true}
		default:
			e.schemaOf(of, below, depth+1)
		}
	}
}

// read returns the number in a decimal's text. Empty means that there is none.
func (d decimal) read(text string) string {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(raw) == 0 || len(raw) > 16 || d.scale < 0 || d.scale > 30 {
		return ""
	}
	unscaled := new(big.Int).SetBytes(raw)
	if raw[0] >= 0x80 {
		unscaled.Sub(unscaled, new(big.Int).Lsh(big.NewInt(1), uint(8*len(raw))))
	}
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(d.scale)), nil)
	return new(big.Rat).SetFrac(unscaled, scale).FloatString(d.scale)
}

// isConnect reports whether an object has the form that Kafka Connect's JSON converter writes.
func isConnect(o object) bool {
	_, hasSchema := o["schema"]
	_, hasPayload := o["payload"]
	return hasSchema && hasPayload && len(o) == 2
}

// isBraced reports whether a text begins like a JSON object or array.
func isBraced(text string) bool {
	text = strings.TrimSpace(text)
	return text != "" && (text[0] == '{' || text[0] == '[')
}
