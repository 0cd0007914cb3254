// Package events makes measurement events together with what must become of each of them: stored, as which reading, or
// turned into a letter, for which reason. It knows this because it made the event, not by decoding it, so it can judge
// the program that decodes.
package events
