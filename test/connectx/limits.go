// SPDX-License-Identifier: Apache-2.0

package connectx

import "purerdma/test/connectx/prm"

// A driver may create any number of objects, and the device stores them in this process's
// memory. Like the memory of a card, it needs limits.

// Limits of kinds of objects, as reported in capabilities.
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

// Limits for all objects together.
const (
	maxTranslations = 1 << 24 // translation entries of keys
	maxQueuePages   = 1 << 22 // pages in the lists of queues
	maxFlowGroups   = 1 << 12
)

// Limits of a single operation with the fabric's lock held.
const (
	// maxSteps is the maximum number of pieces of memory of one request on each side. Keys can
	// refer to each other endlessly.
	maxSteps = 1 << 20
	// maxAtOnce is the number of bytes after which a queue releases the lock for others.
	maxAtOnce = 64 << 20
	// stepCost and frameCost are the costs of a look-up of a piece and of the steering of a
	// frame, in copied bytes.
	stepCost  = 64
	frameCost = 8 << 10
)

// maxFrame is the maximum data of an Ethernet send request. These are segments of 64 KiB
// (EthernetCap.MaxLSO) with their headers.
const maxFrame = 1<<logMaxLSO + 512

const logMaxLSO = 16

// quota limits a resource of all objects of a device together.
type quota struct {
	what       string
	used, most uint64
}

// room rejects n more units if they exceed the limit.
func (q *quota) room(n uint64) error {
	if n > q.most-q.used {
		return refuse(prm.StatusNoResources, "all objects have %d %s, of at most %d: there is no room for %d", q.used, q.what, q.most, n)
	}
	return nil
}

// quotas contains the quotas of a device.
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
