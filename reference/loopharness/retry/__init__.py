"""Failed model requests are tried again, as the policy of their provider says (llm-and-tools 6).

plugin = retry.install(harness)
"""

from loopharness.retry.plugin import RetryPlugin, install
from loopharness.retry.policy import policy_key, policy_of, policy_record, resolved_policy

__all__ = ["RetryPlugin", "install", "policy_key", "policy_of", "policy_record", "resolved_policy"]
