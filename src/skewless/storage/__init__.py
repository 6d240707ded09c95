"""What is in shared directories: the ledger and the state store, both on top of one `BatchDirectory`."""

from skewless.storage.batch_directory import BatchDirectory
from skewless.storage.ledger import Ledger
from skewless.storage.state_store import StateStore
from skewless.storage.worker_report import WorkerReport

__all__ = ["BatchDirectory", "Ledger", "StateStore", "WorkerReport"]
