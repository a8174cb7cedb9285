// SPDX-License-Identifier: Apache-2.0

package connectx

import "purerdma/test/connectx/prm"

// A driver may make what it likes, and the device remembers it in this process's
// memory. So there is an end to all of it, as there is to the memory of a card.

// Limits of kinds of objects, as capabilities say them.
const (
	logMaxQP              = 17
	logMaxSRQ             = 16
	logMaxCQ              = 16
	logMaxPD              = 16
	logMaxXRCD            = 16
	logMaxMkey            = 20
	logMaxTransportDomain = 16
	logMaxRQ              = 16
	logMaxTIR             = 12
	logMaxTIS             = 12
	logMaxRQT             = 12
	logMaxFlowTables      = 16
	logMaxFlow            = 16
	logMaxDestination     = 8
	logMaxMCG             = 13
	maxQPMCG              = 240
)

// What all objects together may have.
const (
	maxTranslations = 1 << 24 // entries of the translations of keys
	maxQueuePages   = 1 << 22 // pages in the lists of queues
	maxFlowGroups   = 1 << 12
)

// What the device does in one go, with the fabric's lock held.
const (
	// maxSteps is how many pieces of memory one request may go through on each
	// side: keys can be made that never end.
	maxSteps = 1 << 20
	// maxAtOnce is after how many bytes a queue lets others have the lock.
	maxAtOnce = 64 << 20
	// stepCost and frameCost are how many bytes could be copied while a piece is
	// looked up, and a frame steered.
	stepCost  = 64
	frameCost = 8 << 10
)

// maxFrame is the most that a request of Ethernet may send: segments of 64 KiB, as
// EthernetCap.MaxLSO says, with their headers.
const maxFrame = 1<<logMaxLSO + 512

const logMaxLSO = 16

// quota counts what all objects of a device together have of something.
type quota struct {
	what       string
	used, most uint64
}

// room refuses n more if they are too many.
func (q *quota) room(n uint64) error {
	if n > q.most-q.used {
		return refuse(prm.StatusNoResources, "all objects have %d %s, of at most %d: there is no room for %d", q.used, q.what, q.most, n)
	}
	return nil
}

// quotas are those of a device.
type quotas struct {
	translations, queuePages, flows, flowGroups quota
}

func newQuotas() quotas {
	return quotas{
		translations: quota{"entries of translations", 0, maxTranslations},
		queuePages:   quota{"pages of queues", 0, maxQueuePages},
		flows:        quota{"entries of flow tables", 0, 1 << logMaxFlow},
		flowGroups:   quota{"groups of flow tables", 0, maxFlowGroups},
	}
}
