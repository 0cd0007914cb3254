package measurement

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// directives maps strftime's directives to their counterparts in a Go layout.
var directives = map[string]string{
	"Y": "2006", "y": "06", "m": "01", "-m": "1", "d": "02", "-d": "2", "e": "_2", "j": "002",
	"H": "15", "-H": "15", "I": "03", "-I": "3", "M": "04", "-M": "4", "S": "05", "-S": "5", "p": "PM",
	"b": "Jan", "h": "Jan", "B": "January", "a": "Mon", "A": "Monday",
	"F": "2006-01-02", "T": "15:04:05", "R": "15:04", "D": "01/02/06",
	"z": "Z0700", ":z": "Z07:00", "%": "%", "f": fractionLayout, "L": fractionLayout, "N": fractionLayout,
}

// fractionLayout is a fraction of a second in a Go layout, without the point or comma before it. A text may have fewer digits, or
// none.
const fractionLayout = "999999999"

// isStrftime reports whether a time format is a pattern of strftime and not a Go layout.
func isStrftime(format string) bool { return strings.Contains(format, "%") }

// goLayout translates a pattern of strftime, as %Y-%m-%d %H:%M:%S. The error's text continues a sentence that begins with the
// pattern.
func goLayout(pattern string) (string, error) {
	var layout strings.Builder
	for rest := pattern; rest != ""; {
		literal, behind, found := strings.Cut(rest, "%")
		if !isLiteral(literal) {
			return "", fmt.Errorf("a strftime pattern with the text %q, which means a time in a Go layout: write a directive there, such as %%H, or write the whole format as a Go layout", literal)
		}
		layout.WriteString(literal)
		if !found {
			break
		}
		directive, known := cutDirective(&behind)
		if !known {
			return "", unknownDirective(directive)
		}
		if text := layout.String(); directives[directive] == fractionLayout && !strings.HasSuffix(text, ".") && !strings.HasSuffix(text, ",") {
			return "", errors.New("a pattern with a fraction of a second, but without a point or comma before it: write %S.%f")
		}
		layout.WriteString(directives[directive])
		rest = behind
	}
	return layout.String(), nil
}

// cutDirective cuts a directive off a text that follows a percent sign, and reports whether the directive is known.
func cutDirective(text *string) (directive string, known bool) {
	rest := *text
	n := min(1, len(rest))
	if n == 1 && (rest[0] == '-' || rest[0] == ':' || isDigits([]byte(rest[:1]))) {
		n = min(2, len(rest)) // a flag, or the number of digits of a fraction
	}
	directive, *text = rest[:n], rest[n:]
	if n == 2 && isDigits([]byte(directive[:1])) && directives[directive[1:]] == fractionLayout {
		directive = directive[1:]
	}
	_, known = directives[directive]
	return directive, known
}

func unknownDirective(directive string) error {
	switch directive {
	case "Z":
		return errAbbreviatedZone
	case "s":
		return errors.New("a pattern with %s (seconds since 1970), which is not supported: set unix instead")
	case "":
		return errors.New("a pattern that ends in a percent sign: write %% for one")
	}
	return fmt.Errorf("a pattern with the unknown directive %%%s: use only %%Y %%m %%d %%j %%b %%a %%H %%I %%p %%M %%S %%f %%z %%F %%T", directive)
}

// isLiteral reports whether a text stands for itself in a Go layout.
func isLiteral(text string) bool {
	for _, t := range []time.Time{
		time.Date(2023, 11, 22, 13, 14, 25, 678_901_234, time.UTC),
		time.Date(1987, 8, 29, 0, 36, 47, 0, time.FixedZone("XYZ", 5400)),
	} {
		if t.Format(text) != text {
			return false
		}
	}
	return true
}
