// Package ship makes what is given to users: an image and the archives of a release. Nothing of it depends on when, where or by
// whom it is made: the same commit and the same Go give the same bytes.
//
//	source.go        the repository at a commit, and programs built of it
//	tar.go           archives
//	image.go         the image, as a layout of the Open Container Initiative
//	certificates.go  the authorities that the image trusts
//	release.go       the files of a release; notices.go: licences and the bill of materials
package ship
