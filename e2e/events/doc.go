// Package events makes measurement events together with their expected fates. An event must be stored as a known reading, or
// become a letter for a known reason. The package knows this because it makes the event, not by decoding it. It can therefore
// judge the program that decodes the event.
package events
