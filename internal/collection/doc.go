// Package collection sets a time series up and changes how it is set up: the options that define it, its indexes, its view, its sharding,
// its expiry, its rollups. It also edits the meta of whole series, beside the consumers that write them.
//
// TimeSeries is the handle: a name in a database. Its methods read what they need anew, since other processes change it too. Setup
// returns what a store of measurements needs to know, as Ready; package sink makes a store of that, and claims, writes and reads.
//
// The options document is the authority. Several consumers may set a time series up at once, each may die in between, and none may hide
// or delete what another one stores. So a change of options holds a lock, and widens expiry and view before it writes the options
// (OptionsChange). Whoever finds the options changed makes indexes and view again.
//
// What a server can do is found out by trying, never by its version: views are tried on documents of many kinds, compressors and indexes
// by asking for them. A missing right is no inability: it decides nothing for good.
//
// Edits of meta note the positions that they change or delete before they send anything. A position that is noted as deleted belongs to the
// stored positions (E2), so records that are read again do not bring it back.
//
// The files:
//
//	setting up    timeseries.go (the handle, its ports, what set-up finds out), setup.go (the steps, what the server can)
//	              options.go (the definition), storage.go (how the buckets are kept on disk), sharding.go (and on shards),
//	              shardsegments.go (the segments of a ranged key)
//	              neededindexes.go (the indexes that every time series has), segments.go (whether it has segments)
//	              trial.go (trying the rights that a consumer needs)
//	the view      view.go (which one is wanted and made), viewpipeline.go (its stages)
//	              viewprobe.go (which views work, by which documents), viewstate.go (what there is)
//	changes       change.go, changelock.go (changing the options, one change at a time)
//	              upkeep.go (with what the server does by itself), expire.go (what has expired)
//	indexes       index.go (those there are, in the terms of measurements), indexcreate.go, indexchange.go
//	              indexdefinition.go (the user's words, kept), indexmeta.go (META_INDEXES), indexexpiry.go (those that expire)
//	              indexdoubt.go (what a user should know of a new index, which fields measurements have)
//	edits         selection.go (whole series, to be edited), selectiontry.go (trying an update), selectionedit.go, selectionbatch.go
//	              notes.go (which positions edits deleted or changed)
//	rollups       rollup.go (making and dropping levels)
package collection
