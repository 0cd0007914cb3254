// Package collection sets up a time series and changes its set-up: the options that define it, its indexes, its view, its
// sharding, its expiry and its rollups. It also edits the meta of whole series while consumers write them.
//
// TimeSeries is the handle: a name in a database. Its methods always read the present state, because other processes change it
// too. Setup returns a Ready, which holds what a store of measurements needs to know. Package sink makes such a store, which
// claims, writes and reads.
//
// The options document is the authority. Several consumers may set up a time series at once, and each may die at any step. None
// may hide or delete what another one stores. So a change of options holds a lock, and widens expiry and view before it writes
// the options (OptionsChange). A process that finds the options changed makes indexes and view again.
//
// The package finds out what a server can do by trying, never by the version. It tries views on documents of many kinds, and asks
// for compressors and indexes. A missing right is no inability, so it decides nothing for good.
//
// Edits of meta write notes of the positions that they change or delete before they send anything. A position that is noted as
// deleted belongs to the stored positions (E2), so reading the records again does not bring it back.
//
// The files:
//
//	setting up    timeseries.go (the handle, its ports, its size), setup.go (the steps, segments, abilities of the server)
//	              options.go (the definition), sharding.go (the shards of the buckets), shardsegments.go (the segments of a ranged key)
//	              neededindexes.go (the indexes that every time series has), trial.go (trying the rights that a consumer needs)
//	the view      view.go (which view is wanted, making it, the existing one), viewpipeline.go (its stages)
//	              viewprobe.go (which views work, tried on documents)
//	changes       change.go (changing the options, one change at a time)
//	              upkeep.go (with the server's own expiry and view; deleting expired measurements)
//	indexes       index.go (the existing ones, in terms of measurements; META_INDEXES), indexchange.go (creating, dropping, hiding)
//	              indexdefinition.go (users' definitions and their expiry)
//	              indexdoubt.go (warnings about a new index, fields of stored measurements)
//	edits         selection.go (whole series, to be edited; trying an update), selectionedit.go (the edit, batch by batch)
//	              notes.go (which positions edits deleted or changed)
//	rollups       rollup.go (making and dropping levels)
package collection
