// Package ship makes the image and the files of a release. The same commit and the same Go give the same bytes, at any time and
// place.
//
//	source.go        the repository at a commit, and programs built of it
//	tar.go           archives
//	image.go         the image, as a layout of the Open Container Initiative
//	certificates.go  the authorities that the image trusts
//	release.go       the files of a release; notices.go: licences and the bill of materials
package ship
