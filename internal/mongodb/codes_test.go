package mongodb

import "testing"

// TestEveryRowIsOfUse checks that each code has a name. All codes of known outages must have a row, and must not
// blame a document.
func TestEveryRowIsOfUse(t *testing.T) {
	for code, a := range answers {
		if a.name == "" {
			t.Errorf("code %d has no name", code)
		}
	}
	for name, codes := range map[string][]int32{
		"elections":   {189, 10058, 10107, 11602, 13435, 13436},
		"shutdown":    {91, 11600},
		"time-outs":   {24, 50, 64, 89, 262},
		"throttling":  {365, 402, 433, 449, 462, 16500},
		"disk full":   {14031},
		"interrupted": {11601},
		"network":     {6, 7, 9001},
		"sharding":    {20, 61, 63, 66, 70, 82, 133, 203, 272, 343, 13388, 31025},
	} {
		for _, code := range codes {
			if _, known := answers[code]; !known {
				t.Errorf("%s: code %d has no row", name, code)
			}
			if ClassOf(code).BlamesDocument() {
				t.Errorf("%s: code %d is taken for bad data", name, code)
			}
		}
	}
}
